// Ctrl-C and SIGTERM as a stop request.
#pragma once

#include <stop_token>
#include <thread>

namespace weightloom::cli {

/// While it lives, the first SIGINT or SIGTERM requests a stop; a second one ends the process as if
/// nothing had been installed. At most one lives at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  std::stop_token token() const noexcept { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::thread waiter_;
};

}  // namespace weightloom::cli
