/** Runs a workload, and a Redis if asked, until this process is killed. Prints their output. */
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Workload } from '../../../../model.ts'
import { createHostInfrastructure } from '../host.ts'
import type { LogLine } from '../lines.ts'
import { startRedisFor } from '../redis.ts'

interface Task {
  readonly stateDir: string
  readonly workload: Workload
  readonly firstOwnPort: number
  readonly redis: boolean
}

const { stateDir, workload, firstOwnPort, redis }: Task = JSON.parse(process.argv[2] ?? '')
const log = ({ source, text }: LogLine) => console.log(`${source} | ${text}`)
const basics = { stateDir, clock: systemClock, random: Math.random, newUid: randomUUID, log }
const host = createHostInfrastructure({
  ...basics,
  commandFor: () => ({
    command: process.execPath,
    args: [fileURLToPath(new URL('child.ts', import.meta.url))],
  }),
  bindHost: '127.0.0.1',
  ownPortsFor: index => ({ debug: firstOwnPort + index }),
})
await host.apply(workload)
if (redis) console.log(`redis at ${(await startRedisFor(basics)).url}`)
