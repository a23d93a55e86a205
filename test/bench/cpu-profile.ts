/** The parts of a .cpuprofile file that are used, as V8 writes it. Times are microseconds. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string }
  }[]
  readonly startTime: number
  /** The id of the running node at each sample. */
  readonly samples: readonly number[]
  /** The time before each sample, since the previous one. */
  readonly timeDeltas: readonly number[]
}

export interface SelfTime {
  /** `module:function`. */
  readonly name: string
  readonly micros: number
  /** The share of the time in which the process was not idle. */
  readonly share: number
}

/** Samples outside of the span are ignored, such as those of the start. In the time of the profile. */
export interface TimeSpan {
  readonly fromMicros: number
  readonly toMicros: number
}

const idle = '(idle)'

/** Returns the time in each function, without its callees; the longest first. */
export function selfTimes(
  profile: CpuProfile,
  moduleOf: (url: string) => string,
  span: TimeSpan,
): readonly SelfTime[] {
  const names = new Map(
    profile.nodes.map(({ id, callFrame }) => [id, nameOf(callFrame.functionName, moduleOf(callFrame.url))]),
  )
  const times = new Map<string, number>()
  let now = profile.startTime
  let total = 0
  for (const [index, id] of profile.samples.entries()) {
    const delta = profile.timeDeltas[index] ?? 0
    now += delta
    const name = names.get(id) ?? ''
    if (name === idle || now < span.fromMicros || now > span.toMicros) continue
    times.set(name, (times.get(name) ?? 0) + delta)
    total += delta
  }
  return [...times]
    .map(([name, micros]) => ({ name, micros, share: micros / total }))
    .toSorted((a, b) => b.micros - a.micros)
}

/** V8's internal nodes have a name in brackets and no module; native code has no module either. */
function nameOf(functionName: string, module: string): string {
  if (module === '') return functionName === '' ? '(native)' : functionName
  return `${module}:${functionName || '(anonymous)'}`
}

/** Returns a path below the root, `node:…`, or a package's name and the path in it. */
export function moduleBelow(root: string): (url: string) => string {
  return url => {
    const path = url.replace(/^file:\/\//, '')
    const inPackage = path.split('/node_modules/').at(-1)
    if (path.includes('/node_modules/')) return inPackage ?? path
    return path.startsWith(root) ? path.slice(root.length).replace(/^\//, '') : path
  }
}
