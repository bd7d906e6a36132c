/* Commands: what callers' threads want done on the I/O thread, in the order in which they came. */
#include <semaphore.h>

#include "engine/inside.h"

void engine_post(kvf_engine *engine, struct engine_command *command) {
  base_list_init(&command->node);
  pthread_mutex_lock(&engine->lock);
  base_list_push_back(&engine->commands, &command->node);
  /* Under the lock, so that the loop cannot end between the two; what comes later is run by engine_close. */
  if (!engine->loop_ended) uv_async_send(&engine->command_async);
  pthread_mutex_unlock(&engine->lock);
}

void engine_run_commands(kvf_engine *engine) {
  struct base_list commands;
  base_list_init(&commands);
  pthread_mutex_lock(&engine->lock);
  base_list_splice(&commands, &engine->commands);
  pthread_mutex_unlock(&engine->lock);
  struct base_list *node;
  while ((node = base_list_pop_front(&commands))) {
    struct engine_command *command = BASE_CONTAINER(node, struct engine_command, node);
    command->run(engine, command);
  }
}

struct call_command {
  struct engine_command base;
  void (*call)(struct transfer *transfer, void *argument);
  void *argument;
  sem_t done;
};

static void run_call(kvf_engine *engine, struct engine_command *base) {
  struct call_command *command = BASE_CONTAINER(base, struct call_command, base);
  command->call(engine->transfer, command->argument);
  sem_post(&command->done);
}

void engine_call(kvf_engine *engine, void (*call)(struct transfer *transfer, void *argument), void *argument) {
  struct call_command command = {.base.run = run_call, .call = call, .argument = argument};
  sem_init(&command.done, 0, 0);
  engine_post(engine, &command.base);
  while (sem_wait(&command.done) != 0) continue;
  sem_destroy(&command.done);
}
