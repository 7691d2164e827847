// Weightloom's front door: everything most programs need.
//
//   #include "weightloom/weightloom.h"
//   using namespace weightloom;
//   Checkpoint source = Checkpoint::open(system_calls(), "Mixtral-8x7B");
//   Selection selection;
//   selection.to = Side::runtime;
//   Conversion plan = plan_conversion(system_calls(), source, selection, Registry::built_in());
//   if (plan.is_refused(false)) throw refusal_of(plan.findings, false);
//   LoadedTensors model = load(system_calls(), plan.program, {});
//   // model.tensors[i] holds plan.program.targets()[i].
#pragma once

#include "weightloom/base/error.h"              // Error, Finding
#include "weightloom/base/syscalls.h"           // system_calls(), the file seam
#include "weightloom/execute/convert.h"         // convert: checkpoint → folder or file
#include "weightloom/execute/diff.h"            // diff: how two checkpoints differ
#include "weightloom/execute/load.h"            // load, load_into: checkpoint → memory
#include "weightloom/execute/verify.h"          // verify_readable, verify_equal
#include "weightloom/mapping/registry.h"        // Registry, Mapping
#include "weightloom/plan/conversion.h"         // plan_conversion: checkpoint + selection → program
#include "weightloom/plan/cost.h"               // Cost
#include "weightloom/plan/interpret.h"          // the reference interpreter
#include "weightloom/safetensors/checkpoint.h"  // Checkpoint::open
#include "weightloom/safetensors/index_repair.h"  // repair_index, write_index
#include "weightloom/version.h"                   // version()

/// Everything that Weightloom offers to C++; `weightloom/c_api.h` is the way in from C.
namespace weightloom {}
