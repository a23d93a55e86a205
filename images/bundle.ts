import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { type BuildOptions, build, type OutputFile, type Plugin } from 'esbuild'

/** Programs as plain JavaScript with all their packages, so that only Node is needed to run them. */
interface Bundle {
  /** The content of each file by its path in the bundle's folder. */
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly inputs: readonly string[]
}

/** Defines `require`, by which CommonJS packages load Node's modules; ECMAScript modules do not have it. */
const requireOfNode =
  "import { createRequire as createRequireOfBundle } from 'node:module';" +
  'const require = createRequireOfBundle(import.meta.url);'

const maxRounds = 10

/**
 * Bundles a program with all programs that it starts. Modules that several of them use are in the bundle
 * once; modules that are imported lazily stay separate files. The code is not minified, so stacks can be
 * read; source maps are for `--enable-source-maps`.
 *
 * @param root the folder of the repository
 * @param name the name of the program: `tollway` becomes `tollway.mjs`
 * @param source the source file of the program, as a path relative to the root
 * @throws Error with every problem and warning.
 */
export async function bundle(root: string, name: string, source: string): Promise<Bundle> {
  const beside: BundledPaths = { programs: new Map([[join(root, source), name]]), folders: new Map() }
  await findPrograms(root, beside)
  const made = await build({
    ...common(root, beside),
    metafile: true,
    splitting: true,
    outExtension: { '.js': '.mjs' },
    banner: { js: requireOfNode },
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
  })
  if (made.warnings.length > 0) throw new Error(made.warnings.map(({ text }) => text).join('\n'))
  const folders = await Promise.all([...beside.folders].map(([path, folder]) => filesIn(root, path, folder)))
  const inputs = [
    ...new Set([...Object.keys(made.metafile.inputs), ...folders.flatMap(({ inputs }) => inputs)]),
  ].sort()
  return {
    files: new Map([
      ...made.outputFiles.map((file): [string, Uint8Array] => [toBundleName(file, root), file.contents]),
      ...folders.flatMap(({ files }) => files),
      ...filesOfPackages(root, inputs),
    ]),
    inputs,
  }
}

/**
 * The programs that sources start, and the folders of files that sources read, by paths relative to
 * themselves. The keys are absolute paths, the values names in the bundle.
 */
interface BundledPaths {
  readonly programs: Map<string, string>
  readonly folders: Map<string, string>
}

async function filesIn(root: string, path: string, folder: string): Promise<PageBundle> {
  const isPage = existsSync(join(path, pageEntry))
  const { files, inputs } = isPage ? await bundlePage(root, path) : { files: readFolder(path), inputs: [] }
  return { files: files.map(([name, content]) => [`${folder}/${name}`, content]), inputs }
}

const readFolder = (path: string) =>
  readdirSync(path)
    .sort()
    .map((name): [string, Uint8Array] => [name, readFileSync(join(path, name))])

/**
 * Files that packages read from the folder of their own module. A bundle has all modules in one folder, so
 * these files are copied there.
 */
const readByPackages: readonly string[] = [
  'node_modules/@electric-sql/pglite/dist/initdb.wasm',
  'node_modules/@electric-sql/pglite/dist/pglite.data',
  'node_modules/@electric-sql/pglite/dist/pglite.wasm',
]

function filesOfPackages(root: string, inputs: readonly string[]): readonly [string, Uint8Array][] {
  const isUsed = (file: string) => inputs.some(input => dirname(input) === dirname(file))
  return readByPackages.filter(isUsed).map(file => [basename(file), readFileSync(join(root, file))])
}

/**
 * Adds to `beside` the programs that its programs start, recursively. Packages are not searched, since only
 * Tollway's own sources start programs.
 */
async function findPrograms(root: string, beside: BundledPaths): Promise<void> {
  const { programs } = beside
  for (let round = 0; round < maxRounds; round++) {
    const before = programs.size
    const options = common(root, beside)
    await build({ ...options, plugins: [...options.plugins, withoutPackages] })
    if (programs.size === before) return
  }
  const names = [...programs.values()].join(', ')
  throw new Error(`programs start programs that start programs, more than ${maxRounds} deep: ${names}`)
}

const withoutPackages: Plugin = {
  name: 'without-packages',
  setup({ onResolve }) {
    onResolve({ filter: /^[@\w]/ }, ({ path }) =>
      path.startsWith('@tollway/') ? undefined : { external: true },
    )
  },
}

/**
 * Makes esbuild bundle what OpenTelemetry's packages require. They were built by Rolldown and call
 * `__require`, a name that esbuild does not know.
 */
const bundleLateRequires: Plugin = {
  name: 'bundle-late-requires',
  setup({ onLoad }) {
    onLoad({ filter: /\/@opentelemetry\/.*\.mjs$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replaceAll(/\b__require\((?=['"])/g, 'require('),
      loader: 'js',
    }))
  },
}

function common(root: string, beside: BundledPaths) {
  return {
    absWorkingDir: root,
    // Paths in source maps are relative to this folder: in an image, where it is `/app`, the repository
    // appears to be at `/`.
    outdir: join(root, 'app'),
    entryPoints: [...beside.programs].map(([path, name]) => ({ in: path, out: name })),
    write: false,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    logLevel: 'silent',
    define: { 'import.meta.main': 'false' },
    plugins: [findReferencedFiles(root, beside), bundleLateRequires],
  } satisfies BuildOptions
}

const toBundleName = ({ path }: OutputFile, root: string) => relative(join(root, 'app'), path)

const programBeside = /new URL\('([^']+\.ts)', import\.meta\.url\)/g
const folderBeside = /new URL\('([^'.]+)\/', import\.meta\.url\)/g
/** Loads a package when it is needed; a bundle calls the `require` that contains the package instead. */
const requireOfSource = /createRequire\(import\.meta\.url\)/g
const moduleLocation = /import\.meta\.(url|dirname|filename)/

/**
 * Replaces references of sources to files beside them. A source that is started as a process or a thread
 * becomes a program of the bundle; a folder of files becomes a folder of the bundle. Any other use of a
 * source's own location is rejected, since it would break in a bundle.
 *
 * @param paths the programs and folders that were found so far; more are added
 */
function findReferencedFiles(root: string, { programs, folders }: BundledPaths): Plugin {
  const nameIn = (path: string) => relative(root, path).replace(/\.ts$/, '').replaceAll('/', '-')
  return {
    name: 'beside',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const source = readFileSync(path, 'utf8')
        if (!moduleLocation.test(source)) return undefined
        const allowedLocations = [programBeside, folderBeside, requireOfSource]
        if (
          moduleLocation.test(
            allowedLocations.reduce((text, allowed) => text.replaceAll(allowed, ''), source),
          )
        ) {
          const allowed =
            "new URL('FILE.ts', import.meta.url), which becomes a program of the bundle, and " +
            "new URL('FOLDER/', import.meta.url), which becomes a folder of it"
          throw new Error(
            `${relative(root, path)} depends on where it lies; only this is allowed: ${allowed}`,
          )
        }
        const withPrograms = source.replaceAll(programBeside, (_, place: string) => {
          const other = join(path, '..', place)
          const name = programs.get(other) ?? nameIn(other)
          programs.set(other, name)
          return `new URL('./${name}.mjs', import.meta.url)`
        })
        const contents = withPrograms.replaceAll(folderBeside, (_, place: string) => {
          const folder = join(path, '..', place)
          folders.set(folder, nameIn(folder))
          return `new URL('./${nameIn(folder)}/', import.meta.url)`
        })
        return { contents, loader: 'ts' }
      })
    },
  }
}

/** The module with which a page begins. A folder that contains it is a page for browsers. */
const pageEntry = 'main.ts'

interface PageBundle {
  /** The name and the content of each file, sorted by name. */
  readonly files: readonly (readonly [string, Uint8Array])[]
  /** The source files in the bundle, as paths relative to the root. */
  readonly inputs: readonly string[]
}

const assets = ['icon.svg', 'style.css']
const plotStyles = 'node_modules/uplot/dist/uPlot.min.css'

export async function bundlePage(root: string, folder: string): Promise<PageBundle> {
  const made = await build({
    absWorkingDir: root,
    entryPoints: [join(folder, pageEntry)],
    outfile: join(folder, 'main.js'),
    write: false,
    bundle: true,
    minify: true,
    metafile: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    legalComments: 'none',
    logLevel: 'silent',
  })
  if (made.warnings.length > 0) throw new Error(made.warnings.map(({ text }) => text).join('\n'))
  const [script] = made.outputFiles
  if (script === undefined) throw new Error(`${folder} has no bundle`)
  return {
    files: [
      ...assets.map((name): [string, Uint8Array] => [name, readFileSync(join(folder, name))]),
      ['main.js', script.contents],
      ['uplot.css', readFileSync(join(root, plotStyles))],
    ],
    inputs: Object.keys(made.metafile.inputs),
  }
}
