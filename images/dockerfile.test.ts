import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, matchesGlob } from 'node:path'
import { test } from 'node:test'
import { buildTree, textFile } from '@tollway/chassis/file-tree.ts'
import { build } from 'esbuild'
import { temporaryFolder } from '../test/support/temporary-folder.ts'
import { bundle } from './bundle.ts'
import { createMaker } from './make-image.ts'
import { ourRecipes } from './our-images.ts'

/**
 * These tests prove that the Dockerfile makes the same images as `make images`: the same files, entry points,
 * variables and ports.
 */

const root = join(import.meta.dirname, '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

interface Stage {
  readonly from: string
  readonly instructions: readonly string[]
}

const stages = new Map(
  read('Dockerfile')
    .split(/^FROM /m)
    .slice(1)
    .map((text): [string, Stage] => {
      const [first = '', ...rest] = text.split('\n')
      const [, from = '', name = ''] = /^(\S+) AS (\S+)$/.exec(first) ?? []
      return [name, { from, instructions: rest.filter(line => line !== '' && !line.startsWith('#')) }]
    }),
)

/**
 * Returns the arguments of an instruction in a stage and in the stages that it is based on, the oldest first.
 */
function argumentsOf(instruction: string, name: string): readonly string[] {
  const stage = stages.get(name)
  if (stage === undefined) return []
  const own = stage.instructions.filter(line => line.startsWith(`${instruction} `))
  return [...argumentsOf(instruction, stage.from), ...own.map(line => line.slice(instruction.length + 1))]
}

const smallNode = { tree: buildTree([['usr/local/bin/node', textFile('node', 0o755)]]), components: [] }
const recipes = ourRecipes(root, '1.2.3', () => smallNode)

for (const { name, title, run } of recipes) {
  test(`the target ${name} of the Dockerfile is the image that make images packs`, () => {
    assert.deepEqual(argumentsOf('ENTRYPOINT', name), [JSON.stringify(run.Entrypoint)])
    assert.deepEqual(argumentsOf('CMD', name), run.Cmd === undefined ? [] : [JSON.stringify(run.Cmd)])
    assert.deepEqual(argumentsOf('USER', name), [run.User])
    assert.deepEqual(argumentsOf('WORKDIR', name), [run.WorkingDir])
    assert.deepEqual(argumentsOf('ENV', name).join(' ').split(' ').sort(), run.Env?.toSorted())
    const ports = Object.keys(run.ExposedPorts ?? {}).map(port => port.replace('/tcp', ''))
    assert.deepEqual(argumentsOf('EXPOSE', name), [ports.join(' ')])
    assert.match(argumentsOf('LABEL', name).join(), new RegExp(`image\\.title="${title}"`))
    assert.deepEqual(
      argumentsOf('COPY', name),
      ['node', name].map(layer => `--from=build /src/out/images/root/${layer}/ /`),
    )
  })
}

test('the Dockerfile builds every image, with the Node of the repository and the locked packages', () => {
  assert.equal(stages.get('dependencies')?.from, `node:${read('.node-version').trim()}-bookworm-slim`)
  const { workspaces } = JSON.parse(read('package.json'))
  assert.deepEqual(stages.get('dependencies')?.instructions, [
    'WORKDIR /src',
    'COPY package.json package-lock.json ./',
    ...workspaces.map((folder: string) => `COPY ${folder}/package.json ${folder}/`),
    'RUN npm ci --ignore-scripts --no-audit --no-fund',
  ])
  const names = recipes.map(({ name }) => name)
  assert.deepEqual(stages.get('build')?.instructions, [
    'COPY . .',
    `RUN node images/main.ts ${names.join(' ')}`,
  ])
  assert.deepEqual([...stages.keys()], ['dependencies', 'build', 'base', ...names])
})

test('make images writes a folder for each layer, from which the Dockerfile copies', async () => {
  const folder = temporaryFolder('dockerfile')
  const sources = { version: '1.2.3', created: new Date(0) }
  const broker = recipes.filter(({ name }) => name === 'broker')
  for (const recipe of broker) await createMaker(folder, sources).make(recipe)
  assert.deepEqual(readdirSync(join(folder, 'root')).sort(), ['broker', 'node'])
})

test('the build context has every file that the images are made of', async () => {
  const builder = await build({
    absWorkingDir: root,
    entryPoints: ['images/main.ts'],
    bundle: true,
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'node',
    external: ['esbuild'],
  })
  // The image of the operator contains the programs of all services.
  const { inputs } = await bundle(root, 'tollway', 'operator/cli/tollway.ts')
  const needed = [...Object.keys(builder.metafile.inputs), ...inputs, 'LICENSE', 'package-lock.json'].filter(
    path => !path.startsWith('node_modules/'),
  )
  const patterns = read('.dockerignore')
    .split('\n')
    .filter(line => line !== '')
  const isExcluded = (path: string): boolean =>
    path !== '.' && (patterns.some(pattern => matchesGlob(path, pattern)) || isExcluded(dirname(path)))
  assert.ok(needed.length > 500)
  assert.deepEqual(needed.filter(isExcluded), [])
})
