import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, test } from 'node:test'
import { completionScripts, type Shell } from '../../operator/cli/commands/completion.ts'
import { createCompletingShells } from '../support/completing-shells.ts'
import { programs } from '../support/programs.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { manifest } from '../support/tollway.ts'

const folder = temporaryFolder('completion')
const onPath = join(folder, 'bin')
mkdirSync(join(folder, 'limits'), { recursive: true })
mkdirSync(onPath)
writeFileSync(join(folder, 'limits', 'a.yaml'), manifest('a', 'shop', { user: '3/day' }))
writeFileSync(join(folder, 'limits', 'b.yaml'), manifest('b', '"shop:eu west"', { user: '3/day' }))
const tollway = join(onPath, 'tollway')
writeFileSync(tollway, `#!/bin/sh\nexec "${process.execPath}" "${programs.tollway}" "$@"\n`)
chmodSync(tollway, 0o755)
for (const [shell, script] of Object.entries(completionScripts)) writeFileSync(join(folder, shell), script)

const { replyOfBash, lineOfZsh, candidatesOfFish } = createCompletingShells({
  name: 'tollway',
  folder: folder,
  env: { ...process.env, PATH: `${onPath}${delimiter}${process.env['PATH']}`, HOME: folder },
  setup: { bash: 'source ./bash', zsh: 'source ./zsh', fish: 'source ./fish' },
  bashFunction: '_tollway',
})

const needs = (shell: Shell, behaviour: string, check: () => void) =>
  test(`${shell} ${behaviour}`, t => {
    if (requireProgram(t, shell)) check()
  })

describe('completion in real shells', () => {
  needs('bash', 'completes commands, options, values, files and domains', () => {
    assert.deepEqual(replyOfBash('vali'), ['validate'])
    assert.deepEqual(replyOfBash('counters', 're'), ['reset'])
    assert.deepEqual(replyOfBash('status', '--oper'), ['--operator'])
    assert.deepEqual(replyOfBash('status', '--output=j'), ['json'])
    assert.deepEqual(replyOfBash('validate', '-f', 'limits/').toSorted(), ['limits/a.yaml', 'limits/b.yaml'])
    assert.deepEqual(replyOfBash('validate', '--state-dir=li'), ['limits'])
    assert.deepEqual(replyOfBash('try', '-f', 'limits', '-d', 'sh'), ['shop', 'shop:eu\\ west'])
    assert.deepEqual(replyOfBash('try', '-f', 'limits', '-d', 'shop:'), ['eu\\ west'])
    assert.deepEqual(replyOfBash('nothing', ''), [''])
  })

  needs('zsh', 'completes commands, options, values, files and domains', () => {
    assert.equal(lineOfZsh('tollway vali'), 'tollway validate ')
    assert.equal(lineOfZsh('tollway counters re'), 'tollway counters reset ')
    assert.equal(lineOfZsh('tollway status --oper'), 'tollway status --operator ')
    assert.equal(lineOfZsh('tollway status --output=j'), 'tollway status --output=json ')
    assert.equal(lineOfZsh('tollway validate -f limits/b'), 'tollway validate -f limits/b.yaml ')
    assert.equal(lineOfZsh('tollway validate --state-dir=lim'), 'tollway validate --state-dir=limits/')
    assert.equal(lineOfZsh('tollway try -f limits -d shop:'), 'tollway try -f limits -d shop:eu\\ west ')
  })

  needs('fish', 'completes commands, options, values, files and domains', () => {
    assert.deepEqual(candidatesOfFish('tollway vali'), ['validate'])
    assert.deepEqual(candidatesOfFish('tollway counters re'), ['reset'])
    assert.deepEqual(candidatesOfFish('tollway status --oper'), ['--operator'])
    assert.deepEqual(candidatesOfFish('tollway status --output=j'), ['--output=json'])
    assert.deepEqual(candidatesOfFish('tollway validate -f limits/'), ['limits/a.yaml', 'limits/b.yaml'])
    assert.deepEqual(candidatesOfFish('tollway validate --state-dir=lim'), ['--state-dir=limits/'])
    assert.deepEqual(candidatesOfFish('tollway try -f limits -d sh'), ['shop', 'shop:eu west'])
  })
})
