import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { parseConfigCheckArgs } from './config-check.ts'

const program = fileURLToPath(new URL('config-check.ts', import.meta.url))

const yaml = (domain: string, key: string, unit = 'minute') =>
  `domain: ${domain}\ndescriptors: [{key: ${key}, rate_limit: {unit: ${unit}, requests_per_unit: 1}}]\n`

/** Creates a folder with these files, and runs the program in it. */
function openFolder(files: Readonly<Record<string, string>>) {
  const cwd = temporaryFolder('config-check')
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(cwd, dirname(path)), { recursive: true })
    writeFileSync(join(cwd, path), text)
  }
  return (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
      cwd,
      encoding: 'utf8',
    })
    return { code: status, out: stdout, err: stderr }
  }
}

test('a valid folder is reported in one line, after its warnings', () => {
  const check = openFolder({
    'right/a.yaml': yaml('a', 'k'),
    'right/sub/b.yml': yaml('b', 'k'),
    'right/note.txt': '',
    'none/note.txt': '',
  })
  assert.deepEqual(check('-config_dir', 'right'), {
    code: 0,
    out:
      'warning: right/note.txt: the file is not read: only *.yaml and *.yml are\n' +
      'all rate limit configs ok: 2 files, 2 domains\n',
    err: '',
  })
  assert.match(check('--config-dir=none/').out, /\nall rate limit configs ok: 0 files, 0 domains\n$/)
})

test('all problems of all files are reported, each with its file and its position', () => {
  const check = openFolder({
    'm/a.yaml': yaml('a', 'k', 'minuet'),
    'm/sub/b.yaml': `${yaml('b', 'k')}ratelimit: 1\n`,
    'm/c.yaml': '{',
    'm/d.yaml': yaml('a', 'l'),
  })
  const { code, out, err } = check('--config-dir', 'm')
  assert.deepEqual([code, err], [1, ''])
  for (const pattern of [
    /^m\/a\.yaml: invalid rate limit unit 'minuet' \(at descriptors\[0\]\.rate_limit\.unit; allowed: /m,
    /^m\/sub\/b\.yaml: config error, unknown key 'ratelimit' \(at ratelimit; /m,
    /^m\/c\.yaml: error loading config file: yaml: line 1: /m,
    /^m\/d\.yaml: duplicate domain 'a' in config file/m,
    /^4 problems$/m,
  ]) {
    assert.match(out, pattern)
  }
  assert.doesNotMatch(check('-config_dir', 'm', '-merge_domain_configs').out, /duplicate domain/)
})

test('all problems of a block are reported, and none that only follows from another', () => {
  const block = (...fields: string[]) => `  - {${fields.join(', ')}}\n`
  const check = openFolder({
    'm/a.yaml': `domain: a
descriptors:
${block('key: a', 'rate_limit: {unit: fortnight, requests_per_unit: many, unlimted: true}')}\
${block('key: b', 'rate_limit: {unt: minute, requests_per_unit: 1}')}\
${block('key: c', 'vale: x')}${block('key: c', 'vale: y')}${block('ky: d', 'share_threshold: true')}`,
    'm/b.yaml': 'doman: a\ndescriptors: [{key: k, rate_limit: {unit: century}}]\n',
  })
  const { out } = check('--config-dir', 'm')
  const found = out
    .split('\n')
    .map(line => line.replace(/; allowed: .*/, ''))
    .filter(line => line !== '')
  assert.deepEqual(found, [
    "m/a.yaml: config error, unknown key 'unlimted' (at descriptors[0].rate_limit.unlimted",
    "m/a.yaml: config error, unknown key 'unt' (at descriptors[1].rate_limit.unt",
    "m/a.yaml: config error, unknown key 'vale' (at descriptors[2].vale",
    "m/a.yaml: config error, unknown key 'vale' (at descriptors[3].vale",
    "m/a.yaml: config error, unknown key 'ky' (at descriptors[4].ky",
    "m/a.yaml: error loading config file: yaml: requests_per_unit cannot be 'many' (at descriptors[0].rate_limit.requests_per_unit",
    "m/b.yaml: config error, unknown key 'doman' (at doman",
    "m/a.yaml: invalid rate limit unit 'fortnight' (at descriptors[0].rate_limit.unit",
    "m/a.yaml: share_threshold can only be used with wildcard values (containing '*'), but found key '' (at descriptors[4].share_threshold)",
    "m/b.yaml: invalid rate limit unit 'century' (at descriptors[0].rate_limit.unit",
    'warning: m/b.yaml: requests_per_unit is left out, which counts as 0: every request is over the limit (at descriptors[0].rate_limit.requests_per_unit',
    '10 problems',
  ])
})

test('the exit code is 2 for invalid options, and for a folder that cannot be read', () => {
  const check = openFolder({ file: '' })
  for (const args of [
    [],
    ['-config_dir'],
    ['--config-dir', ''],
    ['--folder', 'x'],
    ['x'],
    ['-merge_domain_configs=x'],
  ]) {
    const { code, out, err } = check(...args)
    assert.deepEqual([code, out], [2, ''], args.join(' '))
    assert.match(
      err,
      /^node services\/ratelimit\/config-check\.ts: .+\nRun 'node .* --help' for usage\.\n$/s,
      args.join(' '),
    )
  }
  for (const folder of ['missing', 'file']) {
    const { code, err } = check('-config_dir', folder)
    assert.equal(code, 2)
    assert.match(err, new RegExp(`: --config-dir ${folder}: no such folder\\n$`))
  }
  const help = check('--help')
  assert.deepEqual([help.code, help.err], [0, ''])
  assert.match(
    help.out,
    /^Usage: node services\/ratelimit\/config-check\.ts --config-dir DIR .*Exit code: .*Examples:/s,
  )
})

const calls = `
--config-dir x                             -> x
-config_dir x                              -> x
--config_dir=x/y//                         -> x/y
-config-dir=/                              -> /
-merge_domain_configs -config_dir x        -> x merge
--merge-domain-configs=true -config_dir=x  -> x merge
--merge_domain_configs=false -config_dir=x -> x
`

test('the flags of the reference are accepted in both spellings', () => {
  for (const line of calls.split('\n').filter(text => text !== '')) {
    const [args = '', expected] = line.split('->').map(part => part.trim())
    const { folder, merge } = parseConfigCheckArgs(args.split(' '))
    assert.equal(merge ? `${folder} merge` : folder, expected, line)
  }
})
