import { createServer, get } from 'node:http'

/**
 * Requests `/healthz` on each port at a fixed rate, each time on a new connection like a kubelet, without
 * waiting for earlier answers. It writes `asking`, and after SIGTERM the times in milliseconds, by port. A
 * request without an answer counts until then. `health-prober.ts PORT...`; `health-prober.ts control` is a
 * server that answers at once and writes its port.
 */
const [first = '', ...more] = process.argv.slice(2)
const healthEveryMs = 25

if (first === 'control') {
  const server = createServer((_request, response) => response.end('OK'))
  server.listen(0, '127.0.0.1', () => process.stdout.write(`${JSON.stringify(server.address())}\n`))
} else {
  probe([first, ...more].map(Number))
}

function probe(ports: readonly number[]): void {
  const times = ports.map(() => [] as number[])
  const waiting = ports.map(() => new Set<number>())
  const ask = (port: number, index: number) => {
    const beginMs = performance.now()
    waiting[index]?.add(beginMs)
    const end = () => {
      if (waiting[index]?.delete(beginMs)) times[index]?.push(performance.now() - beginMs)
    }
    const at = { host: '127.0.0.1', port, path: '/healthz', agent: false }
    // A failed request counts as one that was never answered.
    get(at, response => response.resume().on('end', end)).on('error', () => {})
  }
  setInterval(() => ports.forEach(ask), healthEveryMs)
  process.stdout.write('asking\n')
  process.once('SIGTERM', () => {
    const nowMs = performance.now()
    waiting.forEach((begins, index) => {
      for (const beginMs of begins) times[index]?.push(nowMs - beginMs)
    })
    process.stdout.write(JSON.stringify(times), () => process.exit())
  })
}
