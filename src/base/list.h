/* Intrusive doubly linked list with a sentinel. A node that is in no list points at itself. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct base_list {
  struct base_list *next, *prev;
};

#define BASE_CONTAINER(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

/* Walk @p list with @p node; the current node may be removed. */
#define BASE_LIST_EACH(list, node)                                                     \
  for (struct base_list *node = (list)->next, *node##_next = node->next; node != (list); \
       node = node##_next, node##_next = node->next)

static inline void base_list_init(struct base_list *list) { list->next = list->prev = list; }
static inline bool base_list_empty(const struct base_list *list) { return list->next == list; }
static inline void base_list_insert(struct base_list *after, struct base_list *node) {
  node->prev = after;
  node->next = after->next;
  after->next->prev = node;
  after->next = node;
}
static inline void base_list_push_back(struct base_list *list, struct base_list *node) { base_list_insert(list->prev, node); }
static inline void base_list_push_front(struct base_list *list, struct base_list *node) { base_list_insert(list, node); }
static inline void base_list_remove(struct base_list *node) {
  node->prev->next = node->next;
  node->next->prev = node->prev;
  base_list_init(node);
}
static inline struct base_list *base_list_pop_front(struct base_list *list) {
  if (base_list_empty(list)) return NULL;
  struct base_list *node = list->next;
  base_list_remove(node);
  return node;
}
/* Move everything from @p from to the end of @p list. */
static inline void base_list_splice(struct base_list *list, struct base_list *from) {
  if (base_list_empty(from)) return;
  from->next->prev = list->prev;
  list->prev->next = from->next;
  from->prev->next = list;
  list->prev = from->prev;
  base_list_init(from);
}

#endif
