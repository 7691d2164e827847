// Marks what the shared library offers.
//
// Everything is compiled with hidden visibility. A public header opens its namespace as
// `namespace weightloom WEIGHTLOOM_EXPORT {`, which makes what it declares visible; headers ending
// in _internal.h do not. Objects of the static and of the shared library are the same ones.
#pragma once

/// What the namespace body, function or class that carries it declares is exported.
#define WEIGHTLOOM_EXPORT __attribute__((visibility("default")))
