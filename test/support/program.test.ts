import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startProgram } from './program.ts'

// The pipe outlives the program, as when its process ends before this one has read all of the pipe.
const late = '(sleep 0.2; echo late) & exit 3'

test('the output of a program that has ended is complete', async () => {
  const program = startProgram('bash', ['-c', late])
  assert.equal(await program.exited(), 3)
  assert.equal(program.output(), 'late\n')
})

test('a program that cannot be started says so, and has ended', async () => {
  const program = startProgram('no-such-program', [])
  await assert.rejects(program.said('ready'), /no-such-program ENOENT/)
  assert.notEqual(await program.end(), 0)
})
