import { describe } from 'node:test'
import { callContract } from './server-contract/calls.ts'
import { lifecycleContract } from './server-contract/lifecycle.ts'
import { limitContract } from './server-contract/limits.ts'
import { sinkContract } from './server-contract/sinks.ts'
import { streamContract } from './server-contract/streams.ts'
import type { CreateServer } from './server-contract/support.ts'
import { tlsContract } from './server-contract/tls.ts'

/**
 * Registers the tests that every implementation of the contract in server.ts must pass, as one suite for
 * each.
 */
export function serverContract(name: string, createServer: CreateServer): void {
  describe(name, { concurrency: 4 }, () => {
    describe('calls', () => callContract(createServer))
    describe('streams', () => streamContract(createServer))
    describe('sinks', () => sinkContract(createServer))
    describe('limits', () => limitContract(createServer))
    describe('lifecycle', () => lifecycleContract(createServer))
    describe('TLS', () => tlsContract(createServer))
  })
}
