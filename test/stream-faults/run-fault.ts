import type { FaultRun, StreamFault, StreamFaultReport } from './stream-fault.ts'

/** Runs a case, and ends its processes and connections. An error of the case is a violation. */
export async function runFault(fault: StreamFault, options: Omit<FaultRun, 't'>): Promise<StreamFaultReport> {
  const ends: (() => Promise<void>)[] = []
  try {
    return await fault.run({ ...options, t: { after: end => void ends.push(end) } })
  } catch (error) {
    return { size: '', goals: [], violations: [(error as Error).message] }
  } finally {
    for (const end of ends.toReversed()) await end()
  }
}
