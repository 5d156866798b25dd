# schema/*.fbs -> generated/schema/*_generated.h
find_program(FLATC flatc REQUIRED)
file(GLOB GRAFT_FBS_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schema/*.fbs)
set(GRAFT_SCHEMA_DIR ${PROJECT_BINARY_DIR}/generated/schema)
file(MAKE_DIRECTORY ${GRAFT_SCHEMA_DIR})
set(GRAFT_SCHEMA_HEADERS "")
foreach(fbs IN LISTS GRAFT_FBS_FILES)
  get_filename_component(stem ${fbs} NAME_WE)
  set(header ${GRAFT_SCHEMA_DIR}/${stem}_generated.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${FLATC} --cpp --scoped-enums --gen-object-api --filename-suffix _generated -o ${GRAFT_SCHEMA_DIR} ${fbs}
    DEPENDS ${fbs} COMMENT "Schema ${stem}" VERBATIM)
  list(APPEND GRAFT_SCHEMA_HEADERS ${header})
endforeach()
add_custom_target(graft_schema DEPENDS ${GRAFT_SCHEMA_HEADERS})
