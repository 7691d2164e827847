// Ranks that are processes under MPI. In a library of its own, weightloom::mpi: programs that do
// not ask for it link no MPI.
//
// Messages are of any size (more than 2³¹ bytes too). A wait yields the core, and ends with a
// RankError when another rank has called abort(): all collectives are made of messages that can be
// given up, which those of MPI cannot. After an abort MPI may still write where the call that was
// given up should have received: keep that memory, or end the process.
// Where a process dies without a word, MPI's launcher ends the others.
// Thread safety: as ProcessGroup; no other thread of the process may be in MPI at the time unless
// MPI was initialised for that.
#pragma once

#include <memory>

#include "weightloom/base/export.h"
#include "weightloom/comm/process_group.h"

namespace weightloom WEIGHTLOOM_EXPORT {

/// Initialises MPI, and finalises it when destroyed; where it is initialised already, neither.
/// Groups are destroyed before.
class MpiSession {
 public:
  /// Errors: io.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  bool initialised_here_ = false;
};

/// The group of all ranks that MPI started, over a duplicate of its communicator; a collective
/// call. Errors: usage if MPI is not initialised; io.
std::unique_ptr<ProcessGroup> mpi_group();
/// The same over another communicator: `communicator` points to an MPI_Comm.
/// Errors: as above.
std::unique_ptr<ProcessGroup> mpi_group(const void* communicator);

}  // namespace weightloom
