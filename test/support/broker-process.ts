import assert from 'node:assert/strict'
import { nodeOptions } from '@tollway/broker/node-options.ts'
import { freePorts } from './free-ports.ts'
import { type Program, startProgram } from './program.ts'
import { programs } from './programs.ts'
import type { Cleanup } from './tollway.ts'
import { startDeadlineMs, waitFor } from './wait-for.ts'

/** The broker as a process, configured by its environment. */
export interface BrokerProcess {
  readonly program: Program
  /** `host:port` for producers and consumers. */
  readonly address: string
  /** `http://host:port` of its debug pages. */
  readonly debug: string
}

/**
 * Starts a broker with the options with which it is delivered. Resolves when it accepts calls. It inherits
 * nothing from this process's environment.
 */
export async function startBroker(
  t: Cleanup,
  env: Readonly<Record<string, string>>,
  ports?: readonly [grpc: number, debug: number],
  main = programs.broker,
): Promise<BrokerProcess> {
  const [grpcPort = 0, debugPort = 0] = ports ?? (await freePorts(2))
  const program = startProgram(process.execPath, [...nodeOptions, main], {
    env: {
      GRPC_HOST: '127.0.0.1',
      GRPC_PORT: `${grpcPort}`,
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: `${debugPort}`,
      DRAIN_DELAY: '0s',
      ...env,
    },
  })
  t.after(async () => {
    await program.end('SIGKILL')
  })
  const debug = `http://127.0.0.1:${debugPort}`
  const ended = () => program.process.exitCode !== null || program.process.signalCode !== null
  const hasStarted = async () => ended() || (await fetch(`${debug}/healthcheck`)).ok
  await waitFor('the broker to be healthy', hasStarted, startDeadlineMs)
  assert.ok(!ended(), `the broker ended with the output: ${program.output()}`)
  return { program, address: `127.0.0.1:${grpcPort}`, debug }
}
