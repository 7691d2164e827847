#include "weightloom/cli/interrupt.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include "weightloom/base/file.h"

namespace weightloom::cli {
namespace {

// request_stop() runs callbacks and may lock, which a signal handler must not; so the handler
// writes a byte to a pipe, and a thread that waits there makes the request.
std::array<int, 2> pipe_ends = {-1, -1};  // read, write

constexpr char kStop = 's';
constexpr char kQuit = 'q';

void send(char message) noexcept {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(pipe_ends[1], &message, 1);
  errno = error;
}

void on_signal(int /*signal*/) { send(kStop); }

void install() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void uninstall() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void wait_for_messages(const std::stop_source& source) {
  for (char message = 0; message != kQuit;) {
    if (read(pipe_ends[0], &message, 1) == 1) {
      if (message == kStop) source.request_stop();
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

InterruptWatch::InterruptWatch() {
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) throw system_error(errno, "open", "a pipe");
  waiter_ = std::thread(wait_for_messages, source_);
  install();
}

InterruptWatch::~InterruptWatch() {
  uninstall();
  send(kQuit);
  waiter_.join();
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace weightloom::cli
