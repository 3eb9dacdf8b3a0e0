// How the threads of an OpenMP team wait for the next piece of shared work.
#pragma once

namespace rookery {

// Lets them spin for some 50 microseconds with libgomp, not at all with LLVM's libomp, and then sleep. Left
// alone they would spin for milliseconds, most of the time of a stage that waits for its peers, and hold up
// whatever else could use the processor: a provider beside it, or a thread of their own team.
//
// OpenMP reads that before main() begins, so that a program which computes calls this first thing: it starts
// itself again, once and as the same process, with GOMP_SPINCOUNT and KMP_BLOCKTIME in its environment.
// Nothing is done where the user has set one of them or OMP_WAIT_POLICY, and where the program cannot be
// started again.
void let_teams_sleep(char** argv);

// The same for the programs that this one starts.
void let_teams_of_children_sleep();

}  // namespace rookery
