# codebox x {name}
import importlib.metadata as metadata, os, sys
name = sys.argv[0] = '{name}'
# Modules of the project must not replace those of the tool.
sys.path.sort(key=lambda place: not place.startswith('/usr/'))
scripts = metadata.entry_points(group='console_scripts')
found = list(scripts.select(name=name))
if found:
    sys.exit(found[0].load()())
for place in (place for place in sys.path if place.startswith('/usr/local/lib/codebox/')):
    program = os.path.join(place, 'bin', name)
    if os.path.isfile(program) and os.access(program, os.X_OK):
        getattr(os, 'execv')(program, sys.argv)
others = ', '.join(sorted(script.name for script in scripts)) or 'none'
print(f'{name}: no program of this name in the packages; programs: {others}', file=sys.stderr)
sys.exit(127)
