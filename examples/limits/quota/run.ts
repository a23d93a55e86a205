import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { Agent, get, type IncomingMessage } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'

/**
 * Starts Tollway with limits.yaml and two Envoys with the filter that `tollway translate -o envoy-quota` prints, and calls
 * both as one user, far more often than the limit of 100 requests a second allows:
 *
 *     node examples/limits/quota/run.ts
 *
 * After its start the service learns for 20 seconds, and the Envoys admit everything. Then they admit 100 requests a second
 * together, without a call for each request. Later most of the load moves to the other Envoy.
 */
const { values: options } = parseArgs({ options: { seconds: { type: 'string', default: '90' } } })

const folder = import.meta.dirname
const tollway = join(folder, '../../../operator/bin/tollway.js')
const place = mkdtempSync(join(tmpdir(), 'tollway-quota-'))
const reportEveryMs = 5_000
const loads = [
  [160, 40],
  [40, 160],
] as const

const children: ChildProcess[] = []
process.on('exit', () => {
  for (const child of children) child.kill()
})
process.on('SIGINT', () => process.exit())
process.on('SIGTERM', () => process.exit())

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

function start(program: string, args: readonly string[]): ChildProcess {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  child.on('error', error => {
    console.error(`${program} does not start: ${error.message}`)
    process.exit(1)
  })
  return child
}

async function startTollway(): Promise<number> {
  const names = ['grpc-port', 'http-port', 'debug-port', 'feed-port', 'operator-port']
  const ports = await Promise.all(names.map(freePort))
  const args = names.flatMap((name, nth) => [`--${name}`, `${ports[nth]}`])
  const own = ['-f', folder, '--state-dir', join(place, 'state'), '--broker-replicas', '0', ...args]
  const { stdout } = start(process.execPath, [tollway, 'run', ...own])
  for await (const text of stdout ?? []) if (`${text}`.includes('Ctrl-C ends every process')) break
  return ports[0] ?? 0
}

async function startEnvoy(name: string, filter: string, servicePort: number): Promise<number> {
  const [port, adminPort] = await Promise.all([freePort(), freePort()])
  const named = filter.replace(
    /( +)rlqs_server:\n/,
    `$&$1  initial_metadata: [{key: tollway-member, value: ${name}}]\n`,
  )
  const address = (of: number) => `{socket_address: {address: 127.0.0.1, port_value: ${of}}}`
  const manager =
    'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'
  const file = join(place, `${name}.yaml`)
  writeFileSync(
    file,
    `admin: {address: ${address(adminPort)}}
static_resources:
  listeners:
    - address: ${address(port)}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": ${manager}
                stat_prefix: ingress
                route_config:
                  virtual_hosts:
                    - {name: app, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200}}]}
                http_filters:
${named.replaceAll(/^(?=.)/gm, ' '.repeat(18))}
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
    - name: ratelimit
      connect_timeout: 1s
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment:
        cluster_name: ratelimit
        endpoints: [{lb_endpoints: [{endpoint: {address: ${address(servicePort)}}}]}]
`,
  )
  start('envoy', ['-c', file, '--use-dynamic-base-id', '--log-level', 'error', '--concurrency', '1'])
  return port
}

/** Calls at this rate; the returned numbers are those of all calls so far. */
function startLoad(port: number) {
  const load = { perSecond: 0, sent: 0, admitted: 0 }
  const agent = new Agent({ keepAlive: true, maxSockets: 32 })
  const call = async () => {
    load.sent += 1
    const request = get({ port, host: '127.0.0.1', agent, headers: { 'x-user': 'alice' } })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    response.resume()
    if (response.statusCode === 200) load.admitted += 1
  }
  let due = 0
  setInterval(() => {
    for (due += load.perSecond / 50; due >= 1; due -= 1) call().catch(() => {})
  }, 20)
  return load
}

const servicePort = await startTollway()
const headers = ['user=x-user', 'plan=x-plan', 'path=:path'].flatMap(header => ['--header', header])
const translate = [tollway, 'translate', '-f', folder, '-o', 'envoy-quota', ...headers]
const filter = execFileSync(process.execPath, translate, { encoding: 'utf8' })
const ports = await Promise.all(['first', 'second'].map(name => startEnvoy(name, filter, servicePort)))
const running = ports.map(startLoad)
const seconds = Number(options.seconds)
console.log(
  'The limit is 100 requests a second. The service learns for 20 seconds, in which both Envoys admit everything.\n',
)
console.log('          requests → admitted, a second')
console.log('second    first Envoy   second Envoy   both admit')
const movesAt = seconds * 0.7
let before = running.map(load => ({ ...load }))
for (let second = 5; second <= seconds; second += 5) {
  const hasMoved = second > movesAt
  for (const [nth, load] of running.entries()) load.perSecond = loads[hasMoved ? 1 : 0][nth] ?? 0
  await setTimeout(reportEveryMs)
  const now = running.map(load => ({ ...load }))
  const perSecond = (nth: number, of: 'sent' | 'admitted') =>
    Math.round((((now[nth]?.[of] ?? 0) - (before[nth]?.[of] ?? 0)) * 1000) / reportEveryMs)
  const ofEnvoy = (nth: number) => `${perSecond(nth, 'sent')} → ${perSecond(nth, 'admitted')}`
  const both = `${perSecond(0, 'admitted') + perSecond(1, 'admitted')}`
  const note = hasMoved && second - 5 <= movesAt ? '   most of the load moves to the second' : ''
  console.log(`${second}`.padEnd(10) + ofEnvoy(0).padEnd(14) + ofEnvoy(1).padEnd(15) + both + note)
  before = now
}
process.exit()
