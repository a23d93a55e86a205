/** Returns the CPU time of this thread for the work in milliseconds, whatever else the machine does meanwhile. */
export function cpuMsOf(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}
