import type { FaultRun, StreamFault, StreamFaultReport } from './stream-fault.ts'

/** Also ends the processes and connections of the case, whose error is a violation. */
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
