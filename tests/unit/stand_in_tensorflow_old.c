/* A TensorFlow that is too old to be used. */
const char *TF_Version(void);

const char *TF_Version(void)
{
    return "2.15.1";
}
