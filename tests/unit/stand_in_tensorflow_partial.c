/* A TensorFlow that is new enough but was built without servers. */
const char *TF_Version(void);
void *TF_NewStatus(void);
void TF_DeleteStatus(void *status);
int TF_GetCode(const void *status);
const char *TF_Message(const void *status);

const char *TF_Version(void)
{
    return "2.99.0-rc1";
}

void *TF_NewStatus(void)
{
    return 0;
}

void TF_DeleteStatus(void *status)
{
    (void)status;
}

int TF_GetCode(const void *status)
{
    (void)status;
    return 0;
}

const char *TF_Message(const void *status)
{
    (void)status;
    return "";
}
