# Writes OUTPUT, the source of embedded_mappings_internal.h, from the FILES (separated by commas).
#   cmake -DOUTPUT=… -DFILES=…,… -P embed.cmake
# The name and aliases of a mapping are read here, so that no mapping is parsed before it is asked for.
string(REPLACE "," ";" files "${FILES}")
set(entries "")
set(texts "")
set(place 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  set(mapping "")
  set(aliases "")
  string(SUBSTRING "${text}" 0 64 head)
  if(head MATCHES "weightloom\\.mapping/")
    string(JSON mapping GET "${text}" name)
    string(JSON count ERROR_VARIABLE none LENGTH "${text}" aliases)
    if(count GREATER 0)
      math(EXPR last "${count} - 1")
      foreach(item RANGE ${last})
        string(JSON alias GET "${text}" aliases ${item})
        string(APPEND aliases "${alias} ")
      endforeach()
    endif()
  endif()
  string(APPEND texts "constexpr char kText${place}[] = R\"embedded(${text})embedded\";\n")
  string(APPEND entries "    {\"${name}\", \"${mapping}\", \"${aliases}\", {kText${place}, sizeof(kText${place}) - 1}},\n")
  math(EXPR place "${place} + 1")
endforeach()
file(WRITE "${OUTPUT}" "#include \"weightloom/mapping/embedded_mappings_internal.h\"

#if defined(__clang__)
#pragma clang diagnostic ignored \"-Woverlength-strings\"
#endif

namespace weightloom {
namespace {

${texts}
constexpr EmbeddedFile kFiles[] = {
${entries}};

}  // namespace

std::span<const EmbeddedFile> embedded_mappings() noexcept { return kFiles; }

}  // namespace weightloom
")
