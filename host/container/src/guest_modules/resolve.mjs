// Resolves the module `codebox` in versions of Node whose hooks run in a thread of their own.
const file = new URL('codebox.cjs', import.meta.url).href

export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context)
  } catch (error) {
    if (specifier !== 'codebox') throw error
    return { url: file, format: 'commonjs', shortCircuit: true }
  }
}
