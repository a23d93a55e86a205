import { describe } from 'node:test'
import { callContract } from './contract/calls.ts'
import { lifecycleContract } from './contract/lifecycle.ts'
import { limitContract } from './contract/limits.ts'
import { sinkContract } from './contract/sinks.ts'
import { streamContract } from './contract/streams.ts'
import type { CreateServer } from './contract/support.ts'
import { tlsContract } from './contract/tls.ts'

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
