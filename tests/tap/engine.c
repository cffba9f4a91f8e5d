// An engine of a few lines that logs through assay_tap.h; the tests build it with every compiler
// and run it as a process of its own. engine records | loop | abort | exit | fork |
// full | held | denormals | flushed | wrong | coordinates | batch | reopen | beside | daemon |
// ask | error | closed | early
// clang-format off: the header comes first
#define ASSAY_TAP_IMPLEMENTATION
#include "assay_tap.h"
// clang-format on

#include <signal.h>
#include <sys/wait.h>

enum { kValues = 3000, kThreads = 4 };

// Numbers of all sizes, whole and not, that C++ makes too; what is not finite is among them.
static float number(uint64_t i) {
  const uint64_t word = i * 0x9E3779B97F4A7C15U;
  uint32_t bits = (uint32_t)(word >> 32);
  float value;
  if (i % 3 == 1) return (float)(int)(bits >> 12) / 1024.0F - 500.0F;
  if (i % 3 == 2) return (float)(bits % 1000);
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static void fill(float* values, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; ++i) values[i] = number(seed + i);
}

static int check(int result) {
  if (result != 1) exit(3);
  return result;
}

static void log_records(void) {
  static const int32_t tokens[] = {1, 2, -3};
  static const size_t sizes[] = {0, 1, 5, 8, 9, 100, kValues};
  assay_tap_header header = {
      "m\"\\", "ab", "llama", "Q4_1",        tokens, 3, "line\n\x01 caf\xC3\xA9 \xFF\xC3",
      "tap",   NULL, "exact", "layers,\"q\""};
  float values[kValues];
  const int64_t cube[] = {2, 3, 4};
  const uint16_t halves[] = {0x3C00, 0x8001, 0x7C00, 0xFE00, 0x0000, 0x7BFF};
  const int64_t six[] = {6};
  check(assay_tap_log_header(&header));
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    fill(values, sizes[i], 1000 * i);
    check(assay_tap_log("layer_0_output", (int64_t)i, values, sizes[i]));
  }
  fill(values, 24, 1);
  check(assay_tap_log_tensor(
      "layer_\xED\xA0\x80\x7F\xF4\x8F\xBF\xBF\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81\xC2\xADn", 7,
      ASSAY_TAP_F32, values, cube, 3));
  check(assay_tap_log_tensor("half", 0, ASSAY_TAP_F16, halves, six, 1));
  check(assay_tap_log_tensor("brain", 0, ASSAY_TAP_BF16, halves, six, 1));
}

// Tensors of denormal numbers only, also where the processor takes these for zeros and rounds up.
static void log_denormals(int flushed) {
  static const size_t sizes[] = {3, 20, 200};
  float values[200];
  for (uint32_t i = 0; i < 200; ++i) {
    const uint32_t bits = 0x100U * (i + 1) | (i % 3 == 2 ? 0x80000000U : 0);
    memcpy(values + i, &bits, sizeof(bits));
  }
#if defined(__x86_64__)
  uint32_t mode = 0x1F80;
  if (flushed) mode = 0xDFC0;
  __asm__ __volatile__("ldmxcsr %0" : : "m"(mode) : "memory");
#endif
  for (int i = 0; i < 3; ++i) check(assay_tap_log("x", i, values, sizes[i]));
#if defined(__x86_64__)
  __asm__ __volatile__("stmxcsr %0" : "=m"(mode) : : "memory");
  if ((mode & 0xFFC0U) != (flushed ? 0xDFC0U : 0x1F80U)) exit(13);
#else
  (void)flushed;
#endif
}

static void finished(int64_t token_idx) {
  if (write(STDOUT_FILENO, &token_idx, sizeof(token_idx)) != sizeof(token_idx)) _exit(4);
}

static int64_t last = -1;  // the record after which the process is to end; -1: never

static void* log_for_ever(void* first) {
  float values[kValues];
  fill(values, kValues, 5);
  for (int64_t t = *(const int64_t*)first;; t += kThreads) {
    check(assay_tap_log("layer_0_output", t, values, kValues));
    finished(t);
    if (last >= 0 && t >= last) return NULL;
  }
}

static void log_with_threads(void) {
  static int64_t firsts[kThreads];
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    firsts[i] = i;
    if (pthread_create(&threads[i], NULL, log_for_ever, &firsts[i]) != 0) exit(5);
  }
  for (int i = 0; i < kThreads; ++i) (void)pthread_join(threads[i], NULL);
}

// Children are forked while threads log, and log themselves.
static void log_with_children(void) {
  static int64_t firsts[kThreads];
  pthread_t threads[kThreads];
  last = 200;
  check(assay_tap_log("layer_0_output", 0, NULL, 0));
  for (int i = 0; i < kThreads; ++i) {
    firsts[i] = 1 + i;
    if (pthread_create(&threads[i], NULL, log_for_ever, &firsts[i]) != 0) exit(5);
  }
  for (int i = 0; i < 20; ++i) {
    float values[kValues];
    fill(values, kValues, (uint64_t)i);
    if (fork() == 0) {
      for (int t = 0; t < 10; ++t)
        check(assay_tap_log("child", 1000 + 10 * i + t, values, kValues));
      _exit(0);
    }
  }
  for (int i = 0; i < kThreads; ++i) (void)pthread_join(threads[i], NULL);
}

// Asks whatever can be asked.
static void ask(void) {
  printf("%d%d%d%d", assay_tap_on(), assay_tap_wants("logits"), assay_tap_wants("layer_7_output"),
         assay_tap_wants("layer_7_q"));
}

// Children that are forked between the first question and the first record.
static void log_with_early_children(void) {
  float values[kValues];
  fill(values, kValues, 3);
  if (!assay_tap_on()) exit(8);
  for (int i = 1; i <= 8; ++i) {
    if (fork() == 0) {
      check(assay_tap_log("child", i, values, kValues));
      _exit(0);
    }
  }
  for (int i = 1; i <= 8; ++i) {
    int status = 0;
    if (wait(&status) < 0 || status != 0) exit(9);
  }
  check(assay_tap_log("parent", 0, values, kValues));
}

// A log that cannot be written must not stop the engine, by a signal neither.
static int log_until_it_fails(void) {
  float values[kValues];
  fill(values, kValues, 0);
  for (int64_t t = 0; t < 100; ++t) {
    if (assay_tap_log("layer_0_output", t, values, kValues) == -1) {
      return assay_tap_log("layer_0_output", t, values, 1) == -1 && assay_tap_error() != NULL &&
                     !assay_tap_on()
                 ? 0
                 : 6;
    }
    finished(t);
  }
  return 7;
}

// A signal that the engine itself holds, and that was sent to it before, is the engine's.
static int log_with_a_signal_held(void) {
  sigset_t held;
  sigset_t pending;
  sigset_t mask;
  (void)sigemptyset(&held);
  (void)sigaddset(&held, SIGPIPE);
  if (pthread_sigmask(SIG_BLOCK, &held, NULL) != 0 || raise(SIGPIPE) != 0) return 10;
  if (log_until_it_fails() != 0) return 11;
  (void)sigpending(&pending);
  (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
  return sigismember(&pending, SIGPIPE) == 1 && sigismember(&pending, SIGXFSZ) == 0 &&
                 sigismember(&mask, SIGPIPE) == 1 && sigismember(&mask, SIGXFSZ) == 0
             ? 0
             : 12;
}

// Calls without a meaning among others.
static void log_wrong_calls(void) {
  const float value = 1;
  const int64_t negative[] = {-1};
  const int64_t one[] = {1};
  const int64_t nine[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  assay_tap_header header;
  memset(&header, 0, sizeof(header));
  header.n_tokens = 2;
  printf("%d", assay_tap_log("x", 0, &value, 1));
  printf("%d", assay_tap_log("x", -1, &value, 1));
  printf("%d", assay_tap_log_tensor("x", 1, ASSAY_TAP_F32, &value, negative, 1));
  printf("%d", assay_tap_log_tensor("x", 1, 3, &value, one, 1));
  printf("%d", assay_tap_log("x", 1, NULL, 1));
  printf("%d", assay_tap_log_tensor("x", 1, ASSAY_TAP_F32, &value, NULL, 1));
  printf("%d", assay_tap_log_tensor("x", 1, ASSAY_TAP_F32, &value, nine, 9));
  printf("%d%d", assay_tap_log(NULL, 1, &value, 1), assay_tap_wants(NULL));
  printf("%d%d", assay_tap_log("", 1, &value, 1), assay_tap_wants(""));
  printf("%d%d", assay_tap_log_header(&header), assay_tap_log_header(NULL));
  printf("%d%d", assay_tap_on(), assay_tap_error() != NULL);
  printf("%d", assay_tap_log("x", 2, &value, 1));
}

// A record for each way to say where it belongs.
static void log_coordinates(void) {
  const float values[] = {1, 2};
  const int64_t shape[] = {1, 2};
  const assay_tap_rank ranks[] = {{1, 0, 2, 0}, {0, 3, 0, 0}, {0, -1, 0, 0}, {0, 0, 0, 32768}};
  assay_tap_coordinates at = ASSAY_TAP_COORDINATES;
  check(assay_tap_log_at(&at, "x", 0, ASSAY_TAP_F32, values, shape, 2));
  at.sequence = "0";
  check(assay_tap_log_at(&at, "x", 0, ASSAY_TAP_F32, values, shape, 2));
  at.sequence = "chat \"7\"";
  at.step = 0;
  at.phase = ASSAY_TAP_PREFILL;
  at.rank = ranks;
  at.dims = "t h[tp]";
  check(assay_tap_log_at(&at, "x", 0, ASSAY_TAP_F32, values, shape, 2));
  at.step = 12;
  at.phase = ASSAY_TAP_DECODE;
  at.rank = ranks + 1;
  check(assay_tap_log_at(&at, "x", 1, ASSAY_TAP_F32, values, shape, 2));
  at.phase = 3;
  printf("%d", assay_tap_log_at(&at, "x", 1, ASSAY_TAP_F32, values, shape, 2));
  at.phase = 0;
  for (int i = 2; i < 4; ++i) {
    at.rank = ranks + i;
    printf("%d", assay_tap_log_at(&at, "x", 1, ASSAY_TAP_F32, values, shape, 2));
  }
  at.rank = NULL;
  at.dims = "+[tp] h[ep,sp]";
  check(assay_tap_log_at(&at, "x", 2, ASSAY_TAP_F32, values, shape, 2));
  const char* const wrong[] = {"h[zz]", "h[tp", "t  t h", "t [tp]",
                               "+ t",   "h+",   "h[tp]x", "h[tp] +[tp]"};
  for (int i = 0; i < 8; ++i) {
    at.dims = wrong[i];
    printf("%d", assay_tap_log_at(&at, "x", 2, ASSAY_TAP_F32, values, shape, 2));
  }
  at.dims = NULL;
  at.sequence = "";
  printf("%d", assay_tap_log_at(&at, "x", 1, ASSAY_TAP_F32, values, shape, 2));
}

static void log_batch_header(void) {
  static const int32_t first[] = {1, 2, 3};
  static const int32_t second[] = {4};
  const assay_tap_sequence sequences[] = {{NULL, first, 3}, {"chat", second, 1}, {"none", NULL, 0}};
  const assay_tap_sequence wrong[] = {{NULL, NULL, 3}};
  const assay_tap_sequence unnamed[] = {{"", first, 3}};
  assay_tap_header header;
  memset(&header, 0, sizeof(header));
  header.engine = "e";
  printf("%d", assay_tap_log_batch_header(&header, wrong, 1));
  printf("%d", assay_tap_log_batch_header(&header, unnamed, 1));
  printf("%d", assay_tap_log_batch_header(&header, NULL, 1));
  check(assay_tap_log_batch_header(&header, sequences, 3));
  const float value = 1;
  const int64_t one[] = {1};
  const assay_tap_rank rank = {0, 0, 0, 3};
  assay_tap_coordinates at = ASSAY_TAP_COORDINATES;
  at.rank = &rank;
  check(assay_tap_log_at(&at, "logits", 0, ASSAY_TAP_F32, &value, one, 1));
}

// 1 if another engine could begin the log now.
static int log_is_free(void) {
  const int other = open(getenv("ORCH_LOG_FILE"), O_WRONLY);
  const int free_now = flock(other, LOCK_EX | LOCK_NB) == 0;
  (void)close(other);
  return free_now;
}

// Ends the log while a child goes on with it.
static void close_beside_a_writer(void) {
  const float value = 1;
  int to_parent[2];
  int to_child[2];
  char byte = 0;
  check(assay_tap_log("x", 0, &value, 1));
  if (pipe(to_parent) != 0 || pipe(to_child) != 0) exit(14);
  const pid_t child = fork();
  if (child == 0) {
    check(assay_tap_log("x", 1, &value, 1));
    if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1) _exit(15);
    check(assay_tap_log("x", 2, &value, 1));
    assay_tap_close();
    if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1) _exit(15);
    check(assay_tap_log("x", 4, &value, 1));  // begins the log anew
    _exit(0);
  }
  if (read(to_parent[0], &byte, 1) != 1) exit(16);
  assay_tap_close();
  printf("%d", log_is_free());
  printf("%d", assay_tap_log("x", 3, &value, 1));
  assay_tap_close();
  if (write(to_child[1], &byte, 1) != 1 || read(to_parent[0], &byte, 1) != 1) exit(16);
  printf("%d", log_is_free());
  int status = 0;
  if (write(to_child[1], &byte, 1) != 1 || wait(&status) != child || status != 0) exit(17);
}

// A process forked before the first record ends the log and begins it anew beside a child of its
// own, which may then no longer begin.
static void reopen_in_a_child(void) {
  const float value = 1;
  int live[2];
  char byte = 0;
  int status = 0;
  if (!assay_tap_on()) exit(8);
  if (fork() != 0) {
    if (wait(&status) < 0 || status != 0) exit(9);
    return;
  }
  check(assay_tap_log("x", 0, &value, 1));
  if (pipe(live) != 0) exit(14);
  const pid_t child = fork();
  if (child == 0) {
    (void)close(live[1]);
    (void)!read(live[0], &byte, 1);
    _exit(assay_tap_log("x", 2, &value, 1) == -1 ? 0 : 18);
  }
  assay_tap_close();
  check(assay_tap_log("x", 1, &value, 1));
  (void)close(live[1]);
  if (wait(&status) != child || status != 0) exit(17);
}

// Ends the log and begins it anew while a child that has closed it, and one that has not, live.
static void reopen_beside_children(void) {
  const float value = 1;
  int ready[2];
  int live[2];
  char byte = 0;
  check(assay_tap_log("x", 0, &value, 1));
  if (pipe(ready) != 0 || pipe(live) != 0) exit(14);
  for (int closes = 0; closes < 2; ++closes) {
    if (fork() == 0) {
      (void)close(live[1]);
      if (closes) assay_tap_close();
      if (write(ready[1], &byte, 1) != 1) _exit(15);
      (void)!read(live[0], &byte, 1);  // until the parent is done
      _exit(0);
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (read(ready[0], &byte, 1) != 1) exit(16);
  }
  printf("%d", log_is_free());  // the child's close() has not given the lock away
  assay_tap_close();
  printf("%d", assay_tap_log("x", 1, &value, 1));
  (void)close(live[1]);
}

int main(int argc, char** argv) {
  const char* mode = argc == 2 ? argv[1] : "";
  if (strcmp(mode, "records") == 0) log_records();
  if (strcmp(mode, "denormals") == 0) log_denormals(0);
  if (strcmp(mode, "flushed") == 0) log_denormals(1);
  if (strcmp(mode, "loop") == 0) log_with_threads();
  if (strcmp(mode, "fork") == 0) log_with_children();
  if (strcmp(mode, "full") == 0) return log_until_it_fails();
  if (strcmp(mode, "held") == 0) return log_with_a_signal_held();
  if (strcmp(mode, "exit") == 0 || strcmp(mode, "abort") == 0) {
    last = 100;
    log_with_threads();
    if (mode[0] == 'a') abort();
  }
  if (strcmp(mode, "wrong") == 0) log_wrong_calls();
  if (strcmp(mode, "coordinates") == 0) log_coordinates();
  if (strcmp(mode, "batch") == 0) log_batch_header();
  if (strcmp(mode, "reopen") == 0) reopen_beside_children();
  if (strcmp(mode, "beside") == 0) close_beside_a_writer();
  if (strcmp(mode, "daemon") == 0) reopen_in_a_child();
  if (strcmp(mode, "ask") == 0) ask();
  if (strcmp(mode, "error") == 0) printf("%d", assay_tap_error() != NULL);
  if (strcmp(mode, "early") == 0) log_with_early_children();
  if (strcmp(mode, "closed") == 0) {
    const float value = 1;
    log_records();
    assay_tap_close();
    printf("%d", assay_tap_error() != NULL);
    ask();
    printf("%d", assay_tap_log("x", 0, &value, 1));  // not asked for
    assay_tap_close();
  }
  return 0;
}
