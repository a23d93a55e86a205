/**
 * The least that `HostInfrastructure` requires of a service: it shares its port, has its own ports, reports
 * its health over the IPC channel, and ends when the channel closes. The variable BEHAVIOUR makes it
 * misbehave. Its debug port answers with its environment.
 */

import { once } from 'node:events'
import { createServer } from 'node:http'

const { BEHAVIOUR = '', TEST_PORT = '', DEBUG_PORT = '', HOST = '' } = process.env
const health = (healthy: boolean) => process.send?.({ type: 'health', healthy })

const aliveMs = 20
if (BEHAVIOUR !== 'mute') setInterval(() => process.send?.({ type: 'alive' }), aliveMs)

if (BEHAVIOUR === 'crash') process.exit(3)
process.on('disconnect', () => process.exit(0))
process.on('SIGTERM', () => {
  if (BEHAVIOUR === 'stubborn') console.log('SIGTERM? no')
  else process.exit(0)
})

const answer = () =>
  createServer((request, response) => {
    if (request.url === '/kill') process.kill(process.pid, 'SIGKILL')
    if (request.url === '/unhealthy') health(false)
    if (request.url === '/healthy') health(true)
    const { pid, env } = process
    response.setHeader('connection', 'close').end(JSON.stringify({ pid, env }))
  })

const debug = answer().listen(Number(DEBUG_PORT), '127.0.0.1')
const shared = answer().listen({ port: Number(TEST_PORT), host: HOST, reusePort: true })
await Promise.all([debug, shared].map(server => once(server, 'listening')))
process.stdout.write(`process ${process.pid} listens\n`)
console.error('und Grüße')
if (BEHAVIOUR !== 'unready' && BEHAVIOUR !== 'mute') health(true)
