// Runs chains of layout operations from standard input, one chain per line, and prints each result
// in notation, or "error CODE: MESSAGE". For the differential tests in python/tests.
//
// A chain is a stack program of steps separated by ';':
//   leaf SIZE…            pushes the next source, s0, s1, … in order
//   constant VALUE SIZE…  pushes pads
//   concat DIM COUNT      replaces the COUNT topmost layouts; so does stack DIM COUNT
//   reshape SIZE… | slice DIM BEGIN END | permute DIM… | transpose DIM DIM | take DIM INDEX |
//   part DIM INDEX SIZE… | interleave DIM WAYS INVERSE | pad DIM BEFORE AFTER VALUE | coalesce
//                         replace the topmost; take is one of unstack's, part one of split's
#include <cstdint>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "weightloom/base/error.h"
#include "weightloom/layout/coalesce.h"
#include "weightloom/layout/notation.h"
#include "weightloom/layout/operations.h"

namespace {

using weightloom::Layout;
using weightloom::Shape;

class Machine {
 public:
  void run(const std::string& step) {
    std::istringstream words(step);
    std::string name;
    words >> name;
    numbers_.clear();
    for (int64_t number = 0; words >> number;) numbers_.push_back(number);
    if (name == "leaf") return push(weightloom::identity(next_source_++, numbers_));
    if (name == "constant") return push(weightloom::constant(number(0), Shape(rest(1))));
    if (name == "concat") return push(weightloom::concat(pop(number(1)), dim(0)));
    if (name == "stack") return push(weightloom::stack(pop(number(1)), dim(0)));
    const Layout top = pop(1)[0];
    push(applied(name, top));
  }

  const Layout& result() const { return stack_.at(0); }

 private:
  Layout applied(const std::string& name, const Layout& top) const {
    if (name == "reshape") return weightloom::reshape(top, numbers_);
    if (name == "slice") return weightloom::slice(top, dim(0), number(1), number(2));
    if (name == "permute") {
      return weightloom::permute(top, std::vector<int>(numbers_.begin(), numbers_.end()));
    }
    if (name == "transpose") return weightloom::transpose(top, dim(0), dim(1));
    if (name == "take") {
      return weightloom::unstack(top, dim(0)).at(static_cast<size_t>(number(1)));
    }
    if (name == "part") {
      return weightloom::split(top, dim(0), rest(2)).at(static_cast<size_t>(number(1)));
    }
    if (name == "interleave") {
      return weightloom::interleave(top, dim(0), number(1), number(2) != 0);
    }
    if (name == "pad") return weightloom::pad(top, dim(0), number(1), number(2), number(3));
    if (name == "coalesce") {
      const auto regions = top.regions();
      return Layout::make(top.shape(), weightloom::coalesce({regions.begin(), regions.end()}));
    }
    throw weightloom::Error(weightloom::ErrorCode::usage, "unknown step " + name);
  }

  void push(Layout layout) { stack_.push_back(std::move(layout)); }
  std::vector<Layout> pop(int64_t count) {
    if (count < 0 || count > std::ssize(stack_)) {
      throw weightloom::Error(weightloom::ErrorCode::usage, "too few layouts on the stack");
    }
    std::vector<Layout> top(stack_.end() - count, stack_.end());
    stack_.erase(stack_.end() - count, stack_.end());
    return top;
  }

  int64_t number(size_t i) const { return numbers_.at(i); }
  int dim(size_t i) const { return static_cast<int>(numbers_.at(i)); }
  std::vector<int64_t> rest(size_t first) const {
    const auto tail = std::span(numbers_).subspan(first);
    return {tail.begin(), tail.end()};
  }

  std::vector<Layout> stack_;
  std::vector<int64_t> numbers_;
  weightloom::SourceId next_source_ = 0;
};

std::string run(const std::string& chain) {
  Machine machine;
  std::istringstream steps(chain);
  for (std::string step; std::getline(steps, step, ';');) machine.run(step);
  return to_string(machine.result());
}

}  // namespace

int main() {
  for (std::string chain; std::getline(std::cin, chain);) {
    try {
      std::cout << run(chain) << '\n';
    } catch (const weightloom::Error& error) {
      std::cout << "error " << to_string(error.code()) << ": " << error.what() << '\n';
    }
  }
}
