import type { HeapProfiler, Profiler } from 'node:inspector'
import { Session } from 'node:inspector/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type { Profile, ProfileSample, StackFrame } from './encode-pprof.ts'

/** At one sample per millisecond, sampling takes about 1 % of the time. */
const cpuIntervalMicros = 1_000
/** The average number of allocated bytes between two samples. */
const heapIntervalBytes = 64 * 1024

/** Takes a CPU profile of this process's main thread for `durationMs`, in the format of DevTools. */
export function takeCpuProfile(durationMs: number, signal: AbortSignal): Promise<Profiler.Profile> {
  return inSession(async session => {
    await session.post('Profiler.enable')
    await session.post('Profiler.setSamplingInterval', { interval: cpuIntervalMicros })
    await session.post('Profiler.start')
    await wait(durationMs, signal)
    return (await session.post('Profiler.stop')).profile
  })
}

/** Samples the allocations for `durationMs` that are still in use at the end. */
export function takeHeapProfile(
  durationMs: number,
  signal: AbortSignal,
): Promise<HeapProfiler.SamplingHeapProfile> {
  return inSession(async session => {
    await session.post('HeapProfiler.startSampling', { samplingInterval: heapIntervalBytes })
    await wait(durationMs, signal)
    return (await session.post('HeapProfiler.stopSampling')).profile
  })
}

async function inSession<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
  const session = new Session()
  session.connect()
  try {
    return await work(session)
  } finally {
    session.disconnect()
  }
}

/** Rejects when the caller disconnects. */
async function wait(durationMs: number, signal: AbortSignal): Promise<void> {
  await pause(durationMs, undefined, { signal, ref: false })
}

/** Converts a profile of V8 to samples with CPU time in nanoseconds. Idle time is left out. */
export function fromCpuProfile(profile: Profiler.Profile, startedMs: number): Profile {
  const nodes = new Map(profile.nodes.map(node => [node.id, node]))
  const parents = new Map(
    profile.nodes.flatMap(({ id, children = [] }) => children.map(child => [child, id])),
  )
  const nanos = new Map<number, number>()
  for (const [index, id] of (profile.samples ?? []).entries()) {
    nanos.set(id, (nanos.get(id) ?? 0) + Math.max(0, profile.timeDeltas?.[index] ?? 0) * 1_000)
  }
  const samples: ProfileSample[] = []
  for (const [leaf, value] of nanos) {
    const stack: StackFrame[] = []
    for (let id: number | undefined = leaf; id !== undefined; id = parents.get(id)) {
      const frame = nodes.get(id)?.callFrame
      if (frame !== undefined && frame.functionName !== '(root)') stack.push(frame)
    }
    if (stack.length > 0 && stack[0]?.functionName !== '(idle)') samples.push({ stack, values: [value] })
  }
  const durationMs = (profile.endTime - profile.startTime) / 1_000
  return { sampleTypes: [['cpu', 'nanoseconds']], samples, startedMs, durationMs }
}

/** Converts a profile of V8 to samples with the bytes in use. */
export function fromHeapProfile(
  { head }: HeapProfiler.SamplingHeapProfile,
  startedMs: number,
  durationMs: number,
): Profile {
  const samples: ProfileSample[] = []
  const visit = (node: HeapProfiler.SamplingHeapProfileNode, outer: readonly StackFrame[]): void => {
    const stack = node === head ? outer : [node.callFrame, ...outer]
    if (node.selfSize > 0 && stack.length > 0) samples.push({ stack, values: [node.selfSize] })
    for (const child of node.children) visit(child, stack)
  }
  visit(head, [])
  return { sampleTypes: [['inuse_space', 'bytes']], samples, startedMs, durationMs }
}
