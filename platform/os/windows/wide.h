// What Windows' calls need of every file here: paths as UTF-16, and its reasons as text.
#pragma once

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include <string>

namespace graft::os {

/// A path in UTF-8 with either slash, as the calls ending in W take it; empty where it is no UTF-8.
std::wstring wide(const std::string& path);
std::string narrow(const wchar_t* name);

/// "The system cannot find the file specified." without the line's end, and with the number.
std::string system_reason(DWORD number);

}  // namespace graft::os
