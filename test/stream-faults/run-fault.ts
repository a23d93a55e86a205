import type { Extent, StreamFault, StreamFaultReport } from './stream-fault.ts'

/** Runs a case, and ends its processes and connections. An error of the case is a violation. */
export async function runFault(one: StreamFault, extent: Omit<Extent, 't'>): Promise<StreamFaultReport> {
  const ends: (() => Promise<void>)[] = []
  try {
    return await one.run({ ...extent, t: { after: end => void ends.push(end) } })
  } catch (error) {
    return { size: '', goals: [], violations: [(error as Error).message] }
  } finally {
    for (const end of ends.toReversed()) await end()
  }
}
