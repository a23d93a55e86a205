import { Agent, get, request } from 'node:http'
import { manifest, startTollway, type Tollway } from '../support/tollway.ts'
import { percentile } from './percentiles.ts'

export interface PropagationResult {
  readonly replicas: number
  readonly edits: number
  /** The time from the save of the file until every process enforces it. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** Rate limit calls over HTTP while the file was edited. */
  readonly calls: number
  readonly failedCalls: number
}

const callers = 4
const giveUpMs = 5_000

/** Edits a manifest repeatedly under load, and polls each process until it has the new limit. */
export async function measurePropagation(replicas: number, edits: number): Promise<PropagationResult> {
  const ends: (() => Promise<void>)[] = []
  const tollway = await startTollway(
    { after: end => void ends.push(end) },
    { 'bench.yaml': manifest('bench', 'bench', { user: '1000000/hour' }) },
    ['--replicas', `${replicas}`],
  )
  try {
    const { replicas: processes } = await tollway.ready()
    const debug = processes.map(({ addresses }) => `${addresses['debug']}/rlconfig`)
    const load = startLoad(tollway)
    const times: number[] = []
    for (let edit = 1; edit <= edits; edit++) times.push(await timeEdit(tollway, debug, 1_000_000 + edit))
    const { calls, failedCalls } = await load.stop()
    const [p50Ms, p99Ms, maxMs] = [0.5, 0.99, 1].map(share => percentile(times, share))
    return { replicas, edits, p50Ms: p50Ms ?? 0, p99Ms: p99Ms ?? 0, maxMs: maxMs ?? 0, calls, failedCalls }
  } finally {
    for (const end of ends) await end()
  }
}

async function timeEdit(tollway: Tollway, debug: readonly string[], limit: number): Promise<number> {
  const savedMs = performance.now()
  tollway.write('bench.yaml', manifest('bench', 'bench', { user: `${limit}/hour` }))
  await Promise.all(debug.map(url => untilItSays(url, `requests_per_unit=${limit},`)))
  return performance.now() - savedMs
}

const lookers = new Agent({ keepAlive: true })

async function untilItSays(url: string, text: string): Promise<void> {
  const endMs = performance.now() + giveUpMs
  while (!(await read(url)).includes(text)) {
    if (performance.now() > endMs) throw new Error(`${url} does not say ${text} after ${giveUpMs} ms`)
  }
}

function read(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    get(url, { agent: lookers }, response => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', chunk => {
        body += chunk
      })
      response.on('end', () => resolve(body))
    }).on('error', reject)
  })
}

/** A few callers, each with one call at a time on a separate connection. */
function startLoad(tollway: Tollway) {
  let running = true
  let calls = 0
  let failedCalls = 0
  const loops = Array.from({ length: callers }, async (_, caller) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    while (running) {
      calls += 1
      if ((await ask(tollway.httpPort, agent, `user-${caller}`)) !== 200) failedCalls += 1
    }
    agent.destroy()
  })
  return {
    async stop() {
      running = false
      await Promise.all(loops)
      return { calls, failedCalls }
    },
  }
}

function ask(port: number, agent: Agent, value: string): Promise<number> {
  const body = JSON.stringify({ domain: 'bench', descriptors: [{ entries: [{ key: 'user', value }] }] })
  return new Promise(resolve => {
    const call = request({ port, host: '127.0.0.1', path: '/json', method: 'POST', agent }, response => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    call.on('error', () => resolve(0))
    call.end(body)
  })
}
