/* The one mark that makes a function part of the ABI. */
#ifndef KVFERRY_VISIBILITY_H
#define KVFERRY_VISIBILITY_H

#if defined(__GNUC__)
#define KVF_API __attribute__((visibility("default")))
#else
#define KVF_API
#endif

#endif
