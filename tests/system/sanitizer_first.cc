// Preloaded into nbdkit together with the sanitizers' runtime, which starts itself at the first
// malloc. In nbdkit that would be the one in a constructor of libp11-kit, while libc holds its locale
// lock; the runtime's dlerror() then releases that lock once too often, and the process hangs in
// exit(). This library is linked with -z initfirst: its constructor runs before all others.
#include <cstdlib>

namespace {
__attribute__((constructor)) void start_the_sanitizer() {
  void* volatile block = std::malloc(1);
  std::free(block);
}
}  // namespace
