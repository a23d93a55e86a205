import type { BackendFault } from '../support/backend-proxy.ts'
import { backendFault } from './backend-fault.ts'
import { openMemcached, type ProxiedMemcached } from './backends.ts'
import type { FaultCase } from './fault-case.ts'

const unavailable = [
  /the connection to memcached was lost(: .+)?/,
  /connect ECONNREFUSED 127\.0\.0\.1:\d+/,
  /(?:read|write|connect) ECONNRESET.*/,
  /memcached owed replies and sent nothing for \d+ ms/,
  /memcached did not answer for the first time within 1000 ms/,
  /malformed reply from memcached: .+/,
  /too many hits in flight: \d+ and \d+ more; the limit is \d+/,
]
const messages = unavailable.map(
  ({ source }) => new RegExp(`(?:memcached 127\\.0\\.0\\.1:\\d+: )?(?:${source})`),
)
const common = { needs: ['memcached'], openBackend: openMemcached, messages }

const connectionFaults: readonly (readonly [name: string, title: string, fault: BackendFault])[] = [
  ['memcached-refused', 'memcached: connections are refused', { kind: 'refuse' }],
  ['memcached-black-hole', 'memcached: black hole', { kind: 'silence' }],
  ['memcached-garbage', 'memcached: replies are replaced by garbage', { kind: 'garbage', share: 1 }],
]

export const memcachedFaults: readonly FaultCase[] = [
  ...connectionFaults.map(([name, title, fault]) =>
    backendFault<ProxiedMemcached>({
      ...common,
      name,
      title,
      inject: ({ proxy }) => proxy.setFault(fault),
      remove: ({ proxy }) => proxy.setFault(),
    }),
  ),
  backendFault<ProxiedMemcached>({
    ...common,
    name: 'memcached-stopped',
    title: 'memcached is stopped (SIGSTOP)',
    inject: ({ server }) => server.kill('SIGSTOP'),
    remove: ({ server }) => server.kill('SIGCONT'),
  }),
  backendFault<ProxiedMemcached>({
    ...common,
    name: 'memcached-killed',
    title: 'memcached is killed, and restarts empty',
    losesCounters: true,
    duration: 'once',
    inject: ({ server }) => server.kill('SIGKILL'),
    remove: ({ server }) => server.restart(),
  }),
]
