# Follows parquet.py: to-parquet|to-safetensors INPUT OUTPUT.


def main():
    mode, source, target = sys.argv[1:]
    try:
        {"to-parquet": to_parquet, "to-safetensors": to_safetensors}[mode](source, target)
    except (OSError, ValueError, KeyError, TypeError, struct.error, pa.ArrowException) as error:
        sys.exit(" ".join(str(error).split()) or type(error).__name__)


main()
