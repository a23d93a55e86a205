import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { buildTree, type FileTree, fileCopy, type TreeEntry, textFile, writeTree } from './file-tree.ts'
import { packTar } from './tar.ts'

const pack = (tree: FileTree) => Buffer.concat([...packTar(tree)])
const deep = `${'folder/'.repeat(15)}${'name'.repeat(20)}`

function tar(args: readonly string[], input: Buffer): string {
  const { status, stdout, stderr } = spawnSync('tar', [...args], { input, encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  return stdout
}

test('another program reads an archive with names, modes, owners, times, links and contents', () => {
  const tree = buildTree([
    ['usr/bin/program', textFile('#!/bin/sh\n', 0o755)],
    ['etc/passwd', textFile('')],
    ['tmp', { kind: 'folder', mode: 0o1777 }],
    ['bin', { kind: 'link', target: 'usr/bin' }],
    [deep, textFile('x'.repeat(513))],
  ])
  const packed = pack(tree)
  const listed = tar(['--list', '--verbose', '--numeric-owner', '--utc', '--full-time', '-f', '-'], packed)
  const lines = listed.trimEnd().split('\n')
  assert.ok(
    lines.every(line => / 0\/0 .* 1970-01-01 00:00:00 /.test(line)),
    listed,
  )
  assert.match(listed, /^drwxrwxrwt .* tmp\/$/m)
  assert.match(listed, /^-rwxr-xr-x .* 10 .* usr\/bin\/program$/m)
  assert.match(listed, /^lrwxrwxrwx .* bin -> usr\/bin$/m)
  assert.ok(lines.at(-1)?.endsWith('usr/bin/program'), 'sorted')

  const folder = temporaryFolder('tar')
  tar(['--extract', '--directory', folder, '-f', '-'], packed)
  assert.equal(readFileSync(join(folder, deep), 'utf8'), 'x'.repeat(513))
  assert.equal(readlinkSync(join(folder, 'bin')), 'usr/bin')
})

test('the archive does not depend on the order of its files', () => {
  const entries: [string, TreeEntry][] = [
    ['b/2', textFile('2')],
    ['a', textFile('a')],
    ['b/1', textFile('1')],
  ]
  assert.deepEqual(pack(buildTree(entries)), pack(buildTree(entries.toReversed())))
})

test('a path that cannot be packed, or appears twice, is rejected by name', () => {
  const long = 'n'.repeat(101)
  assert.throws(() => pack(buildTree([[long, textFile('')]])), /the path \/n+ is too long/)
  assert.throws(() => buildTree([['a/../b', textFile('')]]), /"a\/\.\.\/b" is not the path of a file/)
  assert.throws(
    () => buildTree([['a', textFile('1')]], [['a', textFile('2')]]),
    /two different files .* \/a$/,
  )
  assert.throws(() => buildTree([['a', textFile('1')]], [['a/b', textFile('2')]]), /\/a is not a folder/)
  assert.equal(buildTree([['/a', textFile('1')]], [['a', textFile('1')]]).size, 1)
})

test('a tree is packed as a folder, with its modes', () => {
  const place = temporaryFolder('tree')
  const source = join(place, 'source')
  writeFileSync(source, 'text')
  const folder = join(place, 'made')
  const tree = buildTree([
    ['bin/program', fileCopy(source, 0o755)],
    ['tmp', { kind: 'folder', mode: 0o1777 }],
  ])
  writeTree(tree, folder)
  writeTree(tree, folder)
  const { mode, mtimeMs } = statSync(join(folder, 'bin/program'))
  assert.deepEqual([mode & 0o7777, mtimeMs], [0o755, 0])
  assert.equal(statSync(join(folder, 'tmp')).mode & 0o7777, 0o1777)
})
