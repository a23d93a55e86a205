import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { createMaker, type MadeImage, type Maker } from './make-image.ts'
import { type NodeLayer, nodeLayer } from './node-layer.ts'
import { ourRecipes } from './our-images.ts'
import type { Recipe } from './recipe.ts'
import { listTags, readSourceState } from './source-state.ts'
import { testServerRecipes } from './test-servers.ts'

const root = join(import.meta.dirname, '..')

const help = (
  recipes: readonly Recipe[],
) => `Makes container images as OCI archives, without Docker and without a network.

  main.ts [--out DIR] [--list FILE] [NAME ...]

Names; without one, all of them, and a server that the machine does not have is left out:
${recipes.map(({ name, title }) => `  ${name.padEnd(14)}${title}`).join('\n')}

Options:
  --out DIR     where to (out/images); each becomes NAME.tar
  --list FILE   also write the list of the images, as JSON
  -h, --help    this text

The same sources on the same system become the same digest. Progress goes to standard error.
Exit code: 0 when everything was made, 1 when something was not, 2 for options that are none.

Examples:
  make images
  make images ARGS='operator ratelimit'
  make images ARGS='--out /tmp/images redis'
  docker load -i out/images/operator.tar
  skopeo copy oci-archive:out/images/operator.tar:dev docker://registry.example.com/tollway/operator:dev
`

async function main(args: readonly string[]): Promise<number> {
  const sources = readSourceState(root, process.env)
  let node: NodeLayer | undefined
  const oneNode = () => {
    node ??= nodeLayer(root)
    return node
  }
  const recipes = [...ourRecipes(root, sources.version, oneNode), ...testServerRecipes()]
  let options: Options
  try {
    options = readOptions(args, recipes)
  } catch (error) {
    say(`${(error as Error).message}\n--help shows how it is called`)
    return 2
  }
  if (options.help) {
    process.stdout.write(help(recipes))
    return 0
  }
  const made: MadeImage[] = []
  let failed = false
  const maker = createMaker(options.folder, sources)
  for (const recipe of recipes.filter(({ name }) => options.names.includes(name))) {
    const image = await makeOne(maker, recipe)
    if (image !== undefined) made.push(image)
    else failed ||= recipe.ours || options.named || process.env['REQUIRE_SERVERS'] === '1'
  }
  process.stdout.write(renderTable(made))
  if (options.list !== undefined) writeFileSync(options.list, JSON.stringify(made))
  const tags = listTags(sources).join(', ')
  if (made.length > 0) process.stdout.write(`\nTags: ${tags}. Load an archive with: docker load -i ARCHIVE\n`)
  return failed ? 1 : 0
}

interface Options {
  readonly help: boolean
  readonly folder: string
  readonly list: string | undefined
  readonly names: readonly string[]
  /** True if the command line names images; false if `names` are all images. */
  readonly named: boolean
}

function readOptions(args: readonly string[], recipes: readonly Recipe[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      out: { type: 'string', default: join(root, 'out/images') },
      list: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const known = recipes.map(({ name }) => name)
  for (const name of positionals) {
    if (!known.includes(name)) throw new Error(`there is no image "${name}"; there are ${known.join(', ')}`)
  }
  const named = positionals.length > 0
  const { help, out: folder, list } = values
  return { help, folder, list, names: named ? positionals : known, named }
}

/** Makes one image. Resolves with undefined if that failed, after printing the reason. */
async function makeOne(maker: Maker, recipe: Recipe): Promise<MadeImage | undefined> {
  const startMs = performance.now()
  try {
    const image = await maker.make(recipe)
    say(`${recipe.name}: made in ${((performance.now() - startMs) / 1000).toFixed(1)} s`)
    return image
  } catch (error) {
    say(`${recipe.name}: NOT MADE: ${(error as Error).message}`)
    return undefined
  }
}

const say = (text: string) => process.stderr.write(`${text}\n`)

function renderTable(images: readonly MadeImage[]): string {
  const rows = images.map(({ reference, archiveBytes, unpackedBytes, digest, archive }) => [
    reference,
    megabytes(archiveBytes),
    megabytes(unpackedBytes),
    shortPath(archive),
    digest,
  ])
  const all = [['IMAGE', 'SIZE', 'UNPACKED', 'ARCHIVE', 'DIGEST'], ...rows]
  const widths = all[0]?.map((_, column) => Math.max(...all.map(row => row[column]?.length ?? 0))) ?? []
  return all
    .map(row => `${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd())
    .map(line => `${line}\n`)
    .join('')
}

function shortPath(path: string): string {
  const fromHere = relative(process.cwd(), path)
  return fromHere.startsWith('..') ? path : fromHere
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`

process.exitCode = await main(process.argv.slice(2))
