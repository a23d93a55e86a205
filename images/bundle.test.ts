import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../test/support/temporary-folder.ts'
import { bundle } from './bundle.ts'

function folderOf(files: Readonly<Record<string, string | Uint8Array>>): string {
  const folder = temporaryFolder('bundle')
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

const goInThread = `
import { Worker } from 'node:worker_threads'
export function go() {
  new Worker(new URL('./in-thread.ts', import.meta.url)).on('message', text => console.log(text))
}
`

test('a bundle contains what a program starts, and finds it from any folder', async () => {
  const sources = folderOf({
    'cli/main.ts': "const { go } = await import('../work/go.ts')\ngo()\n",
    'work/go.ts': goInThread,
    'work/in-thread.ts':
      "import { parentPort } from 'node:worker_threads'\nparentPort?.postMessage('hello')\n",
  })
  const { files, inputs } = await bundle(sources, 'run', 'cli/main.ts')
  assert.deepEqual(inputs, ['cli/main.ts', 'work/go.ts', 'work/in-thread.ts'])
  const names = [...files.keys()].map(name => name.replace(/-[A-Z0-9]{8}\./, '-HASH.'))
  assert.deepEqual(
    names.filter(name => !name.endsWith('.map')).sort(),
    ['go-HASH.mjs', 'run.mjs', 'work-in-thread.mjs'],
    'a lazy import is a separate file',
  )
  const elsewhere = folderOf(Object.fromEntries(files))
  const { stdout, stderr } = spawnSync(process.execPath, [join(elsewhere, 'run.mjs')], { encoding: 'utf8' })
  assert.equal(stdout, 'hello\n', stderr)
})

test('a bundle contains a folder that a source reads, and finds it from any folder', async () => {
  const sources = folderOf({
    'cli/main.ts': "import { read } from '../work/read.ts'\nread()\n",
    'work/read.ts': `
import { readdirSync } from 'node:fs'
export const read = () => console.log(readdirSync(new URL('steps/', import.meta.url)).join(' '))
`,
    'work/steps/1.sql': 'SELECT 1',
    'work/steps/2.sql': 'SELECT 2',
  })
  const { files } = await bundle(sources, 'run', 'cli/main.ts')
  const elsewhere = folderOf(Object.fromEntries(files))
  const { stdout, stderr } = spawnSync(process.execPath, [join(elsewhere, 'run.mjs')], { encoding: 'utf8' })
  assert.equal(stdout, '1.sql 2.sql\n', stderr)
})

const rejected: readonly { readonly title: string; readonly source: string; readonly text: RegExp }[] = [
  {
    title: 'a file that the source reads from its own folder',
    source: "readFileSync(new URL('script.lua', import.meta.url))",
    text: /main\.ts depends on where it lies; only this is allowed: new URL\('FILE\.ts'/,
  },
  {
    title: 'the folder of the source',
    source: 'console.log(import.meta.dirname)',
    text: /main\.ts depends on/,
  },
  {
    title: 'a missing program',
    source: "console.log(new URL('./gone.ts', import.meta.url))",
    text: /gone\.ts/,
  },
  { title: 'an import of a missing file', source: "import 'no-such-package'", text: /Could not resolve/ },
]
for (const { title, source, text } of rejected) {
  test(`rejected: ${title}`, async () => {
    await assert.rejects(bundle(folderOf({ 'main.ts': source }), 'main', 'main.ts'), text)
  })
}
