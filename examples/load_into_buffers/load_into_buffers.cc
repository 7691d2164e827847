// Loads a checkpoint in its runtime layout into buffers that this program owns.
#include <iostream>

#include "weightloom/weightloom.h"

using namespace weightloom;

int main(int, char** argv) try {
  const Checkpoint source = Checkpoint::open(system_calls(), argv[1]);
  Selection selection;
  selection.to = Side::runtime;
  const Conversion plan = plan_conversion(system_calls(), source, selection, Registry::built_in());
  if (plan.is_refused(false)) throw refusal_of(plan.findings, false);

  std::vector<std::vector<std::byte>> memory;
  for (const ProgramTarget& target : plan.program.targets()) memory.emplace_back(target.size_bytes);
  const std::vector<std::span<std::byte>> buffers(memory.begin(), memory.end());
  load_into(system_calls(), plan.program, buffers, {});

  for (size_t i = 0; i < memory.size(); ++i) {
    std::cout << plan.program.targets()[i].name << ": " << memory[i].size() << " bytes\n";
  }
} catch (const Error& error) {
  std::cerr << error.what() << "; next: " << error.next_step() << "\n";
  return 1;
}
