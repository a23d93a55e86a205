import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, test } from 'node:test'
import { completionScripts, type Shell } from '../../operator/cli/completion/scripts.ts'
import { programs } from '../support/programs.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { manifest } from '../support/tollway.ts'

const place = temporaryFolder('completion')
const onPath = join(place, 'bin')
mkdirSync(join(place, 'limits'), { recursive: true })
mkdirSync(onPath)
writeFileSync(join(place, 'limits', 'a.yaml'), manifest('a', 'shop', { user: '3/day' }))
writeFileSync(join(place, 'limits', 'b.yaml'), manifest('b', '"shop:eu west"', { user: '3/day' }))
const tollway = join(onPath, 'tollway')
writeFileSync(tollway, `#!/bin/sh\nexec "${process.execPath}" "${programs.tollway}" "$@"\n`)
chmodSync(tollway, 0o755)
for (const [shell, script] of Object.entries(completionScripts)) writeFileSync(join(place, shell), script)

function run(program: string, args: readonly string[]): string {
  const env = { ...process.env, PATH: `${onPath}${delimiter}${process.env['PATH']}`, HOME: place }
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: place,
    env,
    encoding: 'utf8',
    timeout: 60_000,
  })
  assert.equal(status, 0, stdout + stderr)
  return stdout
}

/** Returns the replies of the function that bash calls for the word at the end of the line. */
function replyOfBash(...words: string[]): readonly string[] {
  // bash splits words at = and :.
  const split = words.flatMap(word =>
    word.split(/([=:])/).filter((part, index) => part !== '' || index === 0),
  )
  const quoted = split.map(word => `'${word}'`).join(' ')
  const script = `source ./bash; COMP_WORDS=(tollway ${quoted}); COMP_CWORD=${split.length}
    _tollway; printf '%s\\n' "\${COMPREPLY[@]}"`
  return run('bash', ['--norc', '-c', script]).trimEnd().split('\n')
}

/** Returns the line after the key for completion was pressed in a terminal. */
function lineOfZsh(line: string): string {
  const text = run('zsh', ['-f', '-c', zshSession, 'session', line])
  return /<<(.*)>>/s.exec(text)?.[1] ?? text
}

const zshSession = `
zmodload zsh/zpty
zpty terminal zsh -f -i
until_printed() {
  local out=
  while [[ $out != *$1* ]] && zpty -r terminal chunk; do out+=$chunk; done
  print -r -- "$out"
}
zpty -w terminal 'PS1=; autoload -U compinit; compinit -u -D; source ./zsh; stty cols 200'
zpty -w terminal 'show() { print -r -- "<<$BUFFER>>" }; zle -N show; bindkey "^X" show; print rea""dy'
until_printed ready > /dev/null
zpty -w -n terminal "$1"$'\\t\\x18'
until_printed '>>'
zpty -d terminal
`

/** Returns the candidates for the end of the line. */
function candidatesOfFish(line: string): readonly string[] {
  const script = `source ./fish; complete -C ${JSON.stringify(line)}`
  return run('fish', ['--no-config', '-c', script])
    .trimEnd()
    .split('\n')
    .map(found => found.replace(/\t.*/, ''))
}

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
