import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts the time of processes in hundredths of a second, independent of the kernel's tick. */
const ticksPerSecond = 100

/** Returns the running processes of the tree below this process, including itself. */
export function processTree(pid: number): readonly number[] {
  const all = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(name => ({ pid: Number(name), parent: Number(statFields(Number(name))?.[1]) }))
  const below = (parent: number): number[] => [
    parent,
    ...all.filter(child => child.parent === parent).flatMap(child => below(child.pid)),
  ]
  return below(pid)
}

/** Returns the user and system time of the process tree and all its threads, as counted by the kernel. */
export function cpuMicros(pid: number): number {
  const ticks = processTree(pid).map(one => {
    const fields = statFields(one)
    return Number(fields?.[11] ?? 0) + Number(fields?.[12] ?? 0)
  })
  return (sum(ticks) * 1e6) / ticksPerSecond
}

/** Returns the same as `cpuMicros`, in microseconds, for the threads that run now. */
export function scheduledMicros(pid: number): number {
  const nanos = processTree(pid).flatMap(one =>
    readdirSync(`/proc/${one}/task`).map(thread =>
      Number(read(one, `task/${thread}/schedstat`).split(' ')[0]),
    ),
  )
  return sum(nanos) / 1000
}

/** Returns the total CPU time of all programs of the machine since its start. */
export function machineMicros(): number {
  const [, user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0] = readFileSync('/proc/stat', 'utf8')
    .slice(0, 200)
    .split(/\s+/)
    .map(Number)
  return ((user + nice + system + irq + softIrq) * 1e6) / ticksPerSecond
}

/** Returns the resident memory of the process tree; shared pages count several times. */
export function rssMiB(pid: number): number {
  const kib = processTree(pid).map(one => Number(/VmRSS:\s+(\d+)/.exec(read(one, 'status'))?.[1] ?? 0))
  return sum(kib) / 1024
}

/** Returns the fields of /proc/PID/stat from the state on; the name before it may contain spaces. */
function statFields(pid: number): string[] | undefined {
  return read(pid, 'stat').split(') ').at(-1)?.split(' ')
}

/** Empty when the process has ended. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
