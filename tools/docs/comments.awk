# Doxygen reads comments that begin with two stars; the C headers have plain ones, which say the same. A comment above a
# declaration becomes its description, one behind it that of what stands before. What // says at a file's head is its page.
function escaped(text) { gsub(/[\\@<>#%"]/, "\\\\&", text); return text }
FNR == 1 {
  head = 1
  if ($0 ~ /^\/\//) print "/** @file"; else if ($0 ~ /^\/\*/) { sub(/^\/\* ?/, ""); print "/** @file"; print escaped($0); if ($0 ~ /\*\//) head = 0; else within = 1; next }
}
head && /^\/\// { sub(/^\/\/ ?/, ""); print escaped($0); next }
head && !within { if (FNR > 1) print "*/"; head = 0 }
within { if ($0 ~ /\*\//) { within = 0; head = 0 }; print; next }
# Headings between parts of a file.
/^\/\* -+ .* -+ \*\/$/ { print ""; next }
# One behind the bracket that opens a struct or an enumeration is about the whole.
/^typedef (struct|enum) .*\{ *\/\*/ {
  at = index($0, "/*")
  print "/**" substr($0, at + 2)
  print substr($0, 1, at - 1)
  documented = 0
  next
}
# What all of these do is said at the head of graft.h.
/^GRAFT_API void graft_[a-z_]*_destroy\(/ && !documented { print "/** Gives the handle up; NULL does nothing. */" }
{ documented = ($0 ~ /\*\/ *$/) }
/^ *\/\*[^*]/ { sub(/\/\*/, "/**"); print; next }
/[;,{)0-9A-Za-z_(] +\/\*[^*]/ && !/^ *\/\// { sub(/\/\*/, "/**<"); print; next }
{ print }
