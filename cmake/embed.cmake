# Writes OUTPUT, the source of embedded_mappings_internal.h, from the FILES (separated by commas).
#   cmake -DOUTPUT=… -DFILES=…,… -P embed.cmake
string(REPLACE "," ";" files "${FILES}")
set(entries "")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  string(APPEND entries "    {\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"weightloom/mapping/embedded_mappings_internal.h\"

namespace weightloom {
namespace {

constexpr EmbeddedFile kFiles[] = {
${entries}};

}  // namespace

std::span<const EmbeddedFile> embedded_mappings() noexcept { return kFiles; }

}  // namespace weightloom
")
