#pragma once

namespace assay {

// How the program meets signals:
// - SIGINT, SIGTERM and SIGHUP end the work in hand in order (base/interrupt.h), a second one at
//   once; where the caller has them ignored, they stay so.
// - SIGBUS, what a mapped file gives that somebody has cut, is one line that names the file, and
//   exit code 2.
// - SIGPIPE and SIGXFSZ are ignored: the write that meets them fails and says why.
// - SIGCHLD is not ignored, whatever the caller has: otherwise how a child ended would be unknown.
void handle_signals();

}  // namespace assay
