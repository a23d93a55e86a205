import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { nodeOptions } from '../../operator/node-options.ts'
import { programs } from '../support/programs.ts'
import { residentMiB } from '../support/resident-memory.ts'
import { type Cleanup, manifest, startTollway } from '../support/tollway.ts'
import { startDeadlineMs, waitFor } from '../support/wait-for.ts'
import { type ConsoleCounts, openConsoles } from './open-consoles.ts'
import { domainName, type SimulatedPodOptions, simulatePod } from './simulated-pod.ts'

export interface OperatorLoad extends SimulatedPodOptions {
  readonly pods: number
  readonly consoles: number
  /** The time before the measurement, for the start and the first reports. */
  readonly settleMs: number
  readonly measureMs: number
}

export interface OperatorCost extends ConsoleCounts {
  /** The share of one core. */
  readonly cpu: number
  readonly rssMiB: number
}

const ticksPerSecond = 100

/** Runs an operator with simulated pods and consoles, and returns what it costs. */
export async function measureOperator(t: Cleanup, load: OperatorLoad): Promise<OperatorCost> {
  const { pods, consoles, domains, rulesPerDomain, settleMs, measureMs } = load
  // The options are those of a cluster.
  const program = [process.execPath, ...nodeOptions, programs.tollway] as const
  const tollway = await startTollway(t, manifestsOf(domains, rulesPerDomain), [], program)
  const { pid, addresses } = await tollway.ready()
  const api = `${addresses['operator']}/api/v1`
  const end = new AbortController()
  const simulated = Array.from({ length: pods }, (_, index) =>
    simulatePod(tollway.feedPort, `pod-${index}`, load, (index * 5_000) / pods, end.signal),
  )
  const areReporting = async () => {
    const response = await fetch(`${api}/domains?limit=1000`)
    const { items } = (await response.json()) as { items: { pods: number }[] }
    return items.length === domains && items.every(item => item.pods >= pods)
  }
  await waitFor('all pods to report', areReporting, startDeadlineMs)
  const counts = { answers: 0, events: 0 }
  const opened = openConsoles(api, consoles, domains, counts, end.signal)
  await pause(settleMs)
  const before = cpuSeconds(pid)
  const startMs = performance.now()
  // A failed pod or console ends the measurement.
  await Promise.race([pause(measureMs), Promise.all([...simulated, opened, pause(measureMs * 2)])])
  const cpu = (cpuSeconds(pid) - before) / ((performance.now() - startMs) / 1000)
  const rssMiB = residentMiB(pid)
  end.abort()
  await Promise.all([...simulated, opened])
  return { cpu, rssMiB, ...counts }
}

function manifestsOf(domains: number, rules: number): Readonly<Record<string, string>> {
  const limits = Object.fromEntries(Array.from({ length: rules }, (_, rule) => [`user${rule}`, '100/minute']))
  const names = Array.from({ length: domains }, (_, index) => domainName(index))
  return Object.fromEntries(names.map(name => [`${name}.yaml`, manifest(name, name, limits)]))
}

function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}
