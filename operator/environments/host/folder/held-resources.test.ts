import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { limits, open } from '../../../testing/files-under-test.ts'

test('a vanished resource stays while a file cannot be read, since that file may contain it', async t => {
  const broken = `${limits('one')}---\n- [broken`
  const f = await open(t, folder => writeFileSync(join(folder, 'a.yaml'), limits('one', 'first')))
  f.write('a.yaml', broken)
  await f.complains(/^a\.yaml: /)

  await t.test('a vanished resource stays also when the broken file is renamed', async () => {
    renameSync(f.at('a.yaml'), f.at('c.yaml'))
    await f.complains(/^a\.yaml: .*one is not here any more and stays in force: c\.yaml may declare it/)
    assert.equal(f.names(), 'one')
  })

  await t.test(
    'a vanished resource stays also when it was moved from a valid file into a broken one',
    async () => {
      f.write('a.yaml', `${limits('one', 'second')}---\n${limits('two')}`)
      await f.has('one two')
      f.write('c.yaml', `${limits('two')}---\n- [broken`)
      f.write('a.yaml', limits('one', 'third'))
      await f.serves('one', 'third')
      await f.complains(/two is not here any more and stays in force: c\.yaml may declare it/)
      assert.equal(f.names(), 'one two')
    },
  )

  await t.test('a vanished resource is deleted once all files can be read and none contains it', async () => {
    rmSync(f.at('c.yaml'))
    await f.has('one')
    await f.isClean()
  })
})

test('a dangling link and a pipe are reported, and all resources stay', async t => {
  const f = await open(t, folder => writeFileSync(join(folder, 'a.yaml'), limits('one')))
  symlinkSync('nothing', f.at('dangling.yaml'))
  await f.complains(/^dangling\.yaml: is a link to something that is not there$/)
  execFileSync('mkfifo', [f.at('pipe.yaml')])
  await f.complains(/^pipe\.yaml: is neither a file nor a folder$/)
  rmSync(f.at('dangling.yaml'))
  rmSync(f.at('pipe.yaml'))
  await f.isClean()
  assert.equal(f.names(), 'one')
})
