#include <kvferry/version.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *kvf_version(void) { return TEXT(KVF_VERSION_MAJOR) "." TEXT(KVF_VERSION_MINOR) "." TEXT(KVF_VERSION_PATCH); }
