import { setTimeout as pause } from 'node:timers/promises'
import { domainName } from './simulated-pod.ts'

/** The pauses of the pages of the console. */
const pollMs = 1_000
const slowPollMs = 3_000

export interface ConsoleCounts {
  /** Answers and events that the consoles have read. */
  answers: number
  events: number
}

/**
 * Opens consoles that call the API as the pages do: a third shows the overview, a third a domain with its
 * plot, and a third the tap. They read until the signal is aborted; a call that fails rejects.
 */
export async function openConsoles(
  api: string,
  consoles: number,
  domains: number,
  counts: ConsoleCounts,
  signal: AbortSignal,
): Promise<void> {
  /** A browser repeats a request if the server has just closed the kept connection. */
  const get = (path: string) =>
    fetch(`${api}${path}`, { signal }).catch(() => fetch(`${api}${path}`, { signal }))

  async function poll(path: string, everyMs: number): Promise<void> {
    while (!signal.aborted) {
      const response = await get(path)
      await response.arrayBuffer()
      if (!response.ok) throw new Error(`${path}: ${response.status}`)
      counts.answers += 1
      await pause(everyMs, undefined, { signal })
    }
  }

  async function read(path: string): Promise<void> {
    const response = await get(path)
    if (!response.ok) throw new Error(`${path}: ${response.status}`)
    for await (const _ of response.body ?? []) counts.events += 1
  }

  const pages = [
    (domain: string) => [
      poll('/resources?limit=200', pollMs),
      poll('/resources?kind=AnimationStreamRoute&limit=200', slowPollMs),
      poll('/resources?kind=Merchant&limit=200', slowPollMs),
      poll('/domains?limit=200', pollMs),
      read(`/series?domain=${domain}`),
    ],
    (domain: string) => [
      poll(`/domains/${domain}/rules?limit=1000&totals=sum`, pollMs),
      poll('/domains?limit=200', slowPollMs),
      read(`/series?domain=${domain}`),
    ],
    (domain: string) => [poll('/domains?limit=200', slowPollMs), read(`/tap?domain=${domain}`)],
  ]
  const calls = Array.from({ length: consoles }, (_, index) =>
    pages[index % pages.length]?.(domainName(index % domains)),
  )
  await Promise.all(calls.flatMap(list => list ?? [])).catch(error => {
    if (!signal.aborted) throw error
  })
}
