import { join } from 'node:path'
import { nodeOptions } from '@tollway/broker/node-options.ts'
import { freePorts } from '../support/free-ports.ts'
import { type GoProgram, goProgramPath, missingGoProgram } from '../support/go-program.ts'
import { startProgram } from '../support/program.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  fillCache,
  fromCache,
  type MeasuredServer,
  measured,
  onServerCore,
  startContestant,
  startOnServerCore,
  untilServing,
} from './servers.ts'

const main = join(root, 'services/broker/main.ts')

/** Starts a broker as it is delivered, with these settings; streams are in its memory by default. */
export async function startBroker(
  name: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<MeasuredServer> {
  await fillCache([...nodeOptions, main], 'GRPC_PORT')
  const [port = 0, debugPort = 0] = await freePorts(2)
  const program = startOnServerCore([...nodeOptions, main], {
    ...fromCache,
    GRPC_HOST: '127.0.0.1',
    GRPC_PORT: `${port}`,
    DEBUG_HOST: '127.0.0.1',
    DEBUG_PORT: `${debugPort}`,
    DRAIN_DELAY: '0s',
    DRAIN_TIMEOUT: '1s',
    ...settings,
  })
  const server = measured(name, program, port, debugPort)
  const ended = () => program.process.exitCode !== null || program.process.signalCode !== null
  try {
    await waitFor(
      'the broker to be healthy',
      async () => ended() || (await fetch(`http://127.0.0.1:${debugPort}/healthcheck`)).ok,
    )
    if (ended()) throw new Error(`the broker did not start; output: ${program.output()}`)
  } catch (error) {
    await server.end()
    throw error
  }
  return server
}

/** Starts the implementation that one would write without the broker. */
export const startRelay = () => startContestant('yardstick', 'relay.ts')

const goRelay: GoProgram = { name: 'go-relay', folder: 'test/bench/go-relay' }

/** Returns the reason why the relay on grpc-go cannot run here; false when it can. */
export const missingGoRelay = () => missingGoProgram(goRelay)

/** Starts the same relay on grpc-go. */
export async function startGoRelay(): Promise<MeasuredServer> {
  const [port = 0] = await freePorts(1)
  const program = startProgram(...onServerCore(goProgramPath(goRelay), [`${port}`]))
  const server = { ...measured('grpc-go relay', program, port, port), gcMs: async () => undefined }
  return untilServing(program, server)
}

/** Starts the program that measures the kernel's cost of writing to sockets. */
export const startBareWrites = () => startContestant('bare writes', 'bare-writes.ts')
