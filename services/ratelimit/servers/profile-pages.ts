import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { getHeapSnapshot } from 'node:v8'
import type { Clock } from '@tollway/chassis/clock.ts'
import { sendPage } from '@tollway/chassis/net/page.ts'

export interface DebugPage {
  readonly help: string
  show(query: URLSearchParams, response: ServerResponse): void
}

/** Takes a profile for a time; `profile` is in the format of DevTools. */
type TakeProfile = (
  durationMs: number,
  signal: AbortSignal,
) => Promise<{ readonly profile: object; readonly toPprof: () => Buffer }>

const profileLimits = { defaultSeconds: 30, defaultHeapSeconds: 10, maxSeconds: 300 } as const

const seconds = '?seconds=N'

/**
 * Creates the pages for profiles of this process: for `go tool pprof`, or with `?format=devtools` for Chrome
 * DevTools. Only one profile runs at a time; a concurrent caller gets 409.
 */
export function createProfilePages(clock: Clock): Readonly<Record<string, DebugPage>> {
  let isTaking = false

  function take(response: ServerResponse, work: (signal: AbortSignal) => Promise<void>): void {
    if (isTaking) {
      reject(response, 409, 'another profile is running; try again later')
      return
    }
    isTaking = true
    const disconnected = new AbortController()
    response.on('close', () => disconnected.abort())
    work(disconnected.signal)
      .catch((error: Error) => disconnected.signal.aborted || reject(response, 500, error.message))
      .finally(() => {
        isTaking = false
      })
  }

  /** @param fileName the name of the file for DevTools; the file for pprof has the extension `.pb.gz` */
  function timed(fallbackSeconds: number, fileName: string, takeProfile: TakeProfile): DebugPage['show'] {
    return (query, response) => {
      const durationMs = readDuration(query, fallbackSeconds)
      if (durationMs === undefined) return reject(response, 400, wrongSeconds)
      take(response, async signal => {
        const { profile, toPprof } = await takeProfile(durationMs, signal)
        if (query.get('format') === 'devtools') sendFile(response, fileName, JSON.stringify(profile))
        else sendFile(response, fileName.replace(/\.\w+$/, '.pb.gz'), toPprof())
      })
    }
  }

  const index = [
    `profile: where time is spent, ${seconds} (${profileLimits.defaultSeconds})`,
    `heap: where memory was allocated for N seconds and is still in use, ${seconds} (${profileLimits.defaultHeapSeconds})`,
    'heapsnapshot: everything in memory, for Chrome DevTools; the process is paused meanwhile',
    'profile and heap are for go tool pprof; with ?format=devtools for Chrome DevTools',
  ].join('\n')

  return {
    '/debug/pprof/': {
      help: 'profiles of this process',
      show: (_, response) => sendPage(response, 200, `${index}\n`),
    },
    '/debug/pprof/profile': {
      help: `where time is spent; ${seconds}, ?format=devtools`,
      show: timed(profileLimits.defaultSeconds, 'profile.cpuprofile', async (durationMs, signal) => {
        const { encodePprof, fromCpuProfile, takeCpuProfile } = await loadTools()
        const startedMs = clock.nowMs()
        const profile = await takeCpuProfile(durationMs, signal)
        return { profile, toPprof: () => encodePprof(fromCpuProfile(profile, startedMs)) }
      }),
    },
    '/debug/pprof/heap': {
      help: `where memory is allocated and kept; ${seconds}, ?format=devtools`,
      show: timed(profileLimits.defaultHeapSeconds, 'heap.heapprofile', async (durationMs, signal) => {
        const { encodePprof, fromHeapProfile, takeHeapProfile } = await loadTools()
        const startedMs = clock.nowMs()
        const profile = await takeHeapProfile(durationMs, signal)
        return { profile, toPprof: () => encodePprof(fromHeapProfile(profile, startedMs, durationMs)) }
      }),
    },
    '/debug/pprof/heapsnapshot': {
      help: 'everything in memory, for Chrome DevTools',
      show(_, response) {
        take(response, async () => {
          response.writeHead(200, fileHeaders('heap.heapsnapshot'))
          await pipeline(getHeapSnapshot(), response)
        })
      },
    },
  }
}

/** Imports the modules that take profiles; on demand, because the inspector takes memory. */
const loadTools = async () => ({
  ...(await import('./encode-pprof.ts')),
  ...(await import('./take-profile.ts')),
})

const wrongSeconds = `seconds must be a number above 0, at most ${profileLimits.maxSeconds}`

function readDuration(query: URLSearchParams, fallbackSeconds: number): number | undefined {
  const text = query.get('seconds')
  const wanted = text === null ? fallbackSeconds : Number(text)
  return wanted > 0 && wanted <= profileLimits.maxSeconds ? wanted * 1_000 : undefined
}

function fileHeaders(name: string) {
  return {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="${name}"`,
  }
}

function sendFile(response: ServerResponse, name: string, body: string | Buffer): void {
  response.writeHead(200, fileHeaders(name)).end(body)
}

function reject(response: ServerResponse, status: number, message: string): void {
  if (response.headersSent) response.destroy()
  else sendPage(response, status, `${message}\n`)
}
